from pydantic import Field, SecretStr

from swarm.domain.policy.section import Section


class WeatherSettings(Section):
    place: str = Field("Bonn", min_length=1)
    key: SecretStr | None = None
