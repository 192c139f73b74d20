"""Alembic's entry point, which runs migrations on the connection that `swarm.store.admin.migrations` passes."""

from alembic import context

from swarm.store.tables import is_described, metadata

connection = context.config.attributes["connection"]

context.configure(
    connection=connection,
    target_metadata=metadata,
    include_name=is_described,
    render_as_batch=connection.dialect.name == "sqlite",  # SQLite changes a table by replacing it
    transactional_ddl=True,  # both engines support this; the transaction is the caller's
)
with context.begin_transaction():
    context.run_migrations()
