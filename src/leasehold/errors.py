"""Every error that a person can see, grouped by who must act.

LeaseholdError
 ├─ UserError       exit 2   your turn: something of yours must change, then the same command continues
 │   └─ NotDurable  exit 2   trained to the end, but the results are not on the durable tier
 ├─ Refusal         exit 3   a gate said no; nothing was done
 ├─ BoxError        exit 4   the box is wrong or said no
 ├─ LinkError       exit 5   the box cannot be reached: its state is unknown
 ├─ RunFailed       exit 6   the run itself ended badly
 ├─ VerifyError     exit 7   what came home is not what was promised
 ├─ HomeError       exit 8   something at home: disk, ledger, permissions
 └─ LandlordError   exit 9   a landlord's API said no: nothing was changed
     ├─ NoCapacity  exit 9   none is free now; another offer may be
     ├─ TooFast     exit 9   asked too often; ask again later
     ├─ LandlordSaidNo  exit 9   any other refusal
     ├─ BadKey      exit 2   your turn: the key is missing, wrong or not allowed this
     ├─ LandlordDown  exit 5   the API cannot be asked: what the landlord holds is unknown
     └─ AnswerLost  exit 5   the request left and no answer came: whether it was carried out is unknown
"""

from __future__ import annotations


class LeaseholdError(Exception):
    """What was seen and what to do; rendered once, by the shell."""

    exit_code = 1

    def __init__(self, code: str, message: str, *, seen: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.seen = seen
        self.hint = hint

    def as_dict(self) -> dict[str, str | int]:
        """Return the JSON form for --json."""
        return {
            "code": self.code,
            "message": self.message,
            "seen": self.seen,
            "hint": self.hint,
            "exit_code": self.exit_code,
        }


class UserError(LeaseholdError):
    """Something of yours must change, then the same command goes on: command, job file, project, or a disk's room."""

    exit_code = 2


class NotDurable(UserError):
    """Training exited 0, yet its results do not lie where they outlive the box: its disk must change."""


class Refusal(LeaseholdError):
    """A gate said no, or nobody said yes; nothing was done."""

    exit_code = 3


class BoxError(LeaseholdError):
    """The box is wrong for this, or refused it."""

    exit_code = 4


class LinkError(LeaseholdError):
    """The box cannot be reached; what happens on it is unknown."""

    exit_code = 5


class RunFailed(LeaseholdError):
    """The run ended without a result."""

    exit_code = 6
    leaves = ""  # the run, if it is the box that broke: another one may continue it


class VerifyError(LeaseholdError):
    """What came home is incomplete, different or does not load."""

    exit_code = 7
    cells: tuple[str, ...] = ()  # in a sweep: the cells it concerns, if the others are fine


class HomeError(LeaseholdError):
    """Something at home stands in the way: disk, ledger, permissions."""

    exit_code = 8


class LandlordError(LeaseholdError):
    """A landlord's API said no; nothing was changed."""

    exit_code = 9


class NoCapacity(LandlordError):
    """The landlord has none free now; another offer, or the same one later, may do."""


class TooFast(LandlordError):
    """The landlord was asked too often; the same request can be sent again later."""

    def __init__(
        self, code: str, message: str, *, seen: str = "", hint: str = "", retry_after_s: float | None = None
    ) -> None:
        super().__init__(code, message, seen=seen, hint=hint)
        self.retry_after_s = retry_after_s  # None: the landlord did not say when


class LandlordSaidNo(LandlordError):
    """The landlord refused, and repeating the request does not help."""


class BadKey(LandlordError):
    """The landlord's key is missing, wrong or not allowed this; what the account holds is unknown."""

    exit_code = 2


class LandlordDown(LandlordError):
    """The landlord's API cannot be asked, or its answer cannot be read; what it holds is unknown."""

    exit_code = 5


class AnswerLost(LandlordError):
    """The request left and no answer came; whether it was carried out is unknown until the holdings are read."""

    exit_code = 5
