"""The entry point for what people do about requests: presses of a card's buttons, and forms.

Who may act: `swarm.services.requests.deciding` decides that at the moment of the decision, from the stored record;
nothing in a payload but the person, the request's id, what was shown and the entered values counts. A form is opened
before the acknowledgement, because its trigger is valid for three seconds, and only for who may decide. Everybody may
read what does not fit on a card; which pages somebody who may decide has been shown is stored, in order. Refusals are
shown only to the person.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import orjson
import structlog
from slack_bolt.response import BoltResponse

from swarm.domain.errors import Conflict, Forbidden, Invalid, NotFound, NotRead, Outdated, RateLimited, SwarmError
from swarm.domain.model.requests import Decide, EntryPoint, FormField, HumanDecision, HumanRequest
from swarm.domain.requests.button_actions import ARGUMENTS_ACTION, FORM_ACTION
from swarm.domain.requests.forms import fill
from swarm.domain.requests.shown import has_read, pages_read, reading_pages, version, with_page_read
from swarm.domain.text.slack_text import mentioned_ids, safe
from swarm.services.requests.deciding import RequestDecisions
from swarm.slack.form_fields import block_id_of, key_of, typed_values
from swarm.slack.incoming.fields import JsonObject
from swarm.slack.incoming.interactions import (
    FormBack,
    FormSubmitted,
    OptionsWanted,
    RequestPressed,
    interaction,
)
from swarm.slack.outgoing.form_inputs import suggestions
from swarm.slack.outgoing.gateway import Gateway
from swarm.slack.outgoing.request_forms import (
    argument_key,
    form_decision,
    form_fields,
    form_pages,
    form_view,
    message_view,
    split_values,
)

UNKNOWN_BUTTON_TEXT: Final = "This button no longer works, so nothing has happened."
NOT_OPENED_TEXT: Final = "The form could not be opened. Press again."
NOT_STORED_TEXT: Final = "This could not be stored. Press again."
TAMPERED_TEXT: Final = "This form was not made here, so nothing was stored. Open it again from the thread."
UNCHANGEABLE_TEXT: Final = "These arguments are too long or secret, so they cannot be changed here."
FILLED_IN_TEXT: Final = "Somebody has filled in this form. Use the buttons of the card."
REFUSED_TITLE: Final = "Not possible"

_WHISPER_SECONDS: Final = 1.5
_REFUSALS: Final = (Conflict, Forbidden, NotFound, RateLimited)

_log = structlog.get_logger(__name__)


class RequestDoor:
    """Handles the payloads about requests. Everything is acknowledged after it is stored."""

    def __init__(self, gateway: Gateway, decisions: RequestDecisions) -> None:
        self._gateway = gateway
        self._decisions = decisions

    async def handle(self, body: object) -> BoltResponse | None:
        """Returns the acknowledgement of a payload; None for a payload that is not about requests."""
        match interaction(body):
            case RequestPressed() as press:
                return await self._pressed(press)
            case FormSubmitted() as form:
                return await self._submitted(form)
            case FormBack() as back:
                return await self._went_back(back)
            case OptionsWanted() as wanted:
                return await self._suggested(wanted)
            case None:
                return None

    # --- Buttons of a card

    async def _pressed(self, press: RequestPressed) -> BoltResponse:
        try:
            words = await self._press(press)
        except Invalid as error:  # may repeat what was entered, which mentions nobody
            await self._whisper(press, await self._problem_text(press, error), names_people=False)
            words = None
        except SwarmError as error:
            words = error.message
        except Exception:  # noqa: BLE001  the person should see any failure
            _log.exception("A press was not stored.", action="request_press_failed", request=press.request_id)
            await self._whisper(press, NOT_STORED_TEXT)
            return BoltResponse(status=500)
        if words:
            await self._whisper(press, words)
        return BoltResponse(status=200)

    async def _press(self, press: RequestPressed) -> str | None:
        """Does what a button says. Returns the text for the person, if any."""
        if press.action in (FORM_ACTION, ARGUMENTS_ACTION) or press.decision is HumanDecision.EDIT:
            return await self._open(press)
        if press.decision is None:
            await self._decisions.note_attempt(press.person, press.request_id, f"unknown button {press.action[:100]}")
            return UNKNOWN_BUTTON_TEXT
        values = None
        if press.values and press.decision is not HumanDecision.REJECT:
            request, _ = await self._decisions.show(press.request_id, press.person, press.place)
            values = typed_values(press.values, request.fields)
        wish = _wish(press, press.decision)
        wish = replace(wish, seen=press.seen, values=values, for_everybody=press.for_everybody)
        try:
            await self._decisions.decide(wish, press.place)
        except NotRead:  # the card was shown before there was anything to read
            return await self._open(press)
        return None

    async def _open(self, press: RequestPressed) -> str | None:
        request, _ = await self._decisions.show(press.request_id, press.person, press.place)
        view = await self._form(press, request)
        return None if await self._gateway.open_view(press.trigger_id, view) else NOT_OPENED_TEXT

    async def _form(self, press: RequestPressed, request: HumanRequest) -> JsonObject:
        """Returns the form for who may decide; for everybody else, what there is to read."""
        decision, is_read = press.decision or form_decision(request), bool(reading_pages(request))
        try:
            request, drafts = await self._decisions.fill_in(_wish(press, decision), press.place)
        except SwarmError:
            if not is_read:
                raise
            return form_view(request, 1, {}, decision=decision, may_decide=False)
        if not is_read and not form_fields(request, decision):
            is_edit = decision is HumanDecision.EDIT
            return message_view(REFUSED_TITLE, UNCHANGEABLE_TEXT if is_edit else FILLED_IN_TEXT)
        values = drafts | typed_values(press.values, request.fields)
        if is_read:
            values = with_page_read(request, values, 1)
            await self._decisions.keep(request.id, press.person, values)
        return form_view(request, 1, values, decision=decision)

    async def _problem_text(self, press: RequestPressed, error: Invalid) -> str:
        """Returns the problem of each field of a form in a message, by its label."""
        request, _ = await self._decisions.show(press.request_id, press.person, press.place)
        labels = {field.name: field.title for field in request.fields if field.name in error.fields}
        lines = [f"{label}: {error.fields[name]}" for name, label in labels.items()]
        return "\n".join(lines) or error.message

    async def _whisper(self, press: RequestPressed, text: str, *, names_people: bool = True) -> None:
        with contextlib.suppress(TimeoutError):  # the acknowledgement is more important
            async with asyncio.timeout(_WHISPER_SECONDS):
                shown = safe(text, mentioned_ids(text) if names_people else frozenset())
                await self._gateway.whisper(press.channel, press.person, shown, press.thread_ts)

    # --- Forms

    async def _submitted(self, form: FormSubmitted) -> BoltResponse:
        try:
            return await self._submit(form)
        except _REFUSALS as error:
            return _show(message_view(REFUSED_TITLE, error.message))
        except Exception:  # noqa: BLE001  the person should see any failure, and keep what was entered
            _log.exception("A form was not stored.", action="request_form_failed", request=form.request_id)
            return _not_stored(form)

    async def _submit(self, form: FormSubmitted) -> BoltResponse:
        decision = form.decision
        if decision is None or not await self._is_installed_here(form):
            return await self._tampered(form, "a form that was not made here")
        request, drafts = await self._decisions.show(form.request_id, form.person)
        to_read = len(reading_pages(request))
        is_reader = to_read and not await self._may_decide(form, decision)
        if is_reader and form.page < len(reading_pages(request, reveals=False)):
            return _show(form_view(request, form.page + 1, {}, decision=decision, may_decide=False))
        if form.seen != version(request):
            raise Outdated
        found = form_pages(request, decision)
        if decision not in request.decisions or form.page > len(found):
            return await self._tampered(form, f"a form for {decision}, page {form.page}")
        if pages_read(request, drafts) < min(form.page, to_read):
            return await self._tampered(form, f"page {form.page}, which was not shown")
        fields = found[form.page - 1]
        values = drafts | _entered(form.values, fields, drafts)
        if form.page < len(found):
            await self._decisions.fill_in(_wish(form, decision))
            problems = fill(fields, {field.name: values.get(field.name) for field in fields}).problems
            if problems:
                return _errors(problems, fields)
            values = with_page_read(request, values, form.page + 1)
            await self._decisions.keep(request.id, form.person, values)
            return _show(form_view(request, form.page + 1, values, decision=decision))
        return await self._decide(form, request, decision, values)

    async def _may_decide(self, act: FormSubmitted | FormBack, decision: HumanDecision) -> bool:
        try:
            await self._decisions.fill_in(_wish(act, decision))
        except (Conflict, Forbidden, Invalid):
            return False
        return True

    async def _decide(
        self, form: FormSubmitted, request: HumanRequest, decision: HumanDecision, values: dict[str, Any]
    ) -> BoltResponse:
        own, arguments = split_values(request, values) if decision is HumanDecision.EDIT else (values, None)
        names = {field.name for field in request.fields}
        given = {name: value for name, value in own.items() if name in names} or None
        wish = replace(_wish(form, decision), seen=form.seen, values=given, arguments=arguments)
        try:
            await self._decisions.decide(wish)
        except Invalid as error:
            await self._decisions.keep(request.id, form.person, values)
            return _corrected(form.page, request, decision, values, error)
        return BoltResponse(status=200)

    async def _went_back(self, back: FormBack) -> BoltResponse:
        try:
            request, drafts = await self._decisions.show(back.request_id, back.person)
            if back.seen != version(request):
                raise Outdated
            decision = back.decision or form_decision(request)
            to_read = len(reading_pages(request))
            if to_read and not await self._may_decide(back, decision):
                view = form_view(request, back.page - 1, {}, decision=decision, may_decide=False)
            else:
                view = await self._earlier(back, request, decision, drafts)
        except SwarmError as error:
            view = message_view(REFUSED_TITLE, error.message)
        except Exception:  # noqa: BLE001  Slack shows the person that it failed
            _log.exception("A page was not stored.", action="request_form_failed", request=back.request_id)
            return BoltResponse(status=500)
        await self._gateway.update_view(back.view_id, back.view_hash, view)
        return BoltResponse(status=200)

    async def _earlier(
        self, back: FormBack, request: HumanRequest, decision: HumanDecision, drafts: dict[str, Any]
    ) -> dict[str, Any]:
        """Returns the page before, with what was entered; or the call's arguments as fields, for who has read it."""
        found, values = form_pages(request, decision), drafts
        if back.page <= len(found):
            values = drafts | _entered(back.values, found[back.page - 1], drafts)
        await self._decisions.keep(request.id, back.person, values)
        if back.edits and HumanDecision.EDIT in request.decisions and has_read(request, drafts):
            return form_view(request, len(reading_pages(request)) + 1, values, decision=HumanDecision.EDIT)
        return form_view(request, back.page if back.edits else back.page - 1, values, decision=decision)

    async def _suggested(self, wanted: OptionsWanted) -> BoltResponse:
        try:
            request, _ = await self._decisions.show(wanted.request_id, wanted.person)
        except NotFound:
            return _json({"options": []})
        except Exception:  # noqa: BLE001  the menu stays empty
            _log.exception("Options were not found.", action="request_options_failed", request=wanted.request_id)
            return BoltResponse(status=500)
        fields = form_fields(request, wanted.decision or form_decision(request))
        name = next((field.name for field in fields if key_of(field) == wanted.key), "")
        return _json(suggestions(fields, name, wanted.query))

    async def _is_installed_here(self, form: FormSubmitted) -> bool:
        me = await self._gateway.identify()
        return form.installed_team in (None, me.team, me.enterprise)

    async def _tampered(self, form: FormSubmitted, outcome: str) -> BoltResponse:
        await self._decisions.note_attempt(form.person, form.request_id, outcome)
        return _show(message_view(REFUSED_TITLE, TAMPERED_TEXT))


def _wish(act: RequestPressed | FormSubmitted | FormBack, decision: HumanDecision) -> Decide:
    """Returns a person's wish to decide, without values."""
    return Decide(request_id=act.request_id, decision=decision, door=EntryPoint.SLACK, person=act.person, team=act.team)


def _entered(values: Mapping[str, Any], fields: tuple[FormField, ...], drafts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what was entered on a page. An empty secret field keeps its earlier value, which the form never shows."""
    kept = {field.name for field in fields if field.secret and drafts.get(field.name) not in (None, "")}
    typed = typed_values(values, fields)
    return {name: value for name, value in typed.items() if value is not None or name not in kept}


def _corrected(
    page: int, request: HumanRequest, decision: HumanDecision, values: Mapping[str, Any], error: Invalid
) -> BoltResponse:
    """Returns the form with its problems: on this page if all are there, otherwise on the first page that has one."""
    problems = dict(error.fields)
    if decision is HumanDecision.EDIT:  # the form's fields are named otherwise than the arguments
        problems |= {argument_key(request, name): problem for name, problem in error.fields.items()}
    found = form_pages(request, decision)
    wrong = [at for at, fields in enumerate(found, start=1) if any(field.name in problems for field in fields)]
    if not wrong:
        lines = [f"{name}: {problem}" for name, problem in error.fields.items()]
        return _show(message_view(REFUSED_TITLE, "\n".join([error.message, *lines]), names_people=False))
    if wrong == [page]:
        return _errors(problems, found[page - 1])
    return _show(form_view(request, wrong[0], values, problems, decision=decision))


def _errors(problems: Mapping[str, str], fields: tuple[FormField, ...]) -> BoltResponse:
    errors = {block_id_of(field): problems[field.name] for field in fields if field.name in problems}
    return _json({"response_action": "errors", "errors": errors})


def _not_stored(form: FormSubmitted) -> BoltResponse:
    """Shows the failure below the first input, because another view would lose what was entered."""
    first = next(iter(form.values), None)
    if first is None:
        return _show(message_view(REFUSED_TITLE, NOT_STORED_TEXT))
    return _json({"response_action": "errors", "errors": {f"field:{first}": NOT_STORED_TEXT}})


def _show(view: JsonObject) -> BoltResponse:
    return _json({"response_action": "update", "view": view})


def _json(body: object) -> BoltResponse:
    return BoltResponse(status=200, body=orjson.dumps(body).decode(), headers={"content-type": "application/json"})
