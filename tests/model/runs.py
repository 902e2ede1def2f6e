"""The bounds of each run of the model, and the variants of the rule that are wrong on purpose."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

FOREVER = 1000
_CONFIG = """\
SPECIFICATION Spec
CONSTANTS
  c1 = c1
  c2 = c2
  c3 = c3
  nobody = nobody
  stranger = stranger
  Candidates = {{{names}}}
  Identity <- {identity}
  D <- {duration}
  ClientGo = {{{clientgo}}}
  Begin = "{begin}"
  Coordinated = {coordinated}
  MaxTime = {time}
  MaxVersion = {versions}
  Edits = {edits}
  Lost = {lost}
  Replaced = {replaced}
  Crashes = {crashes}
  Nominations = {nominations}
  Hands = {{{hands}}}
  Wrong = "{wrong}"
INVARIANTS {invariants}
VIEW View
{symmetry}
"""


@dataclass(frozen=True)
class Run:
    """One run of TLC: how far it goes, and which rule is taken away."""

    name: str
    wrong: str = ""  # the rule that is taken away
    candidates: int = 2
    versions: int = 5  # of the lock object, all writes and edits together
    time: int = FOREVER  # instants; a lease duration is two
    begin: str = "led"  # by c1; "never held"; "nominated": c2 too, by the control plane, and has written the lock
    edits: int = 0  # by hand
    lost: int = 0  # answers
    replaced: int = 0  # electors
    crashes: int = 0
    nominations: int = 0  # by the control plane; 0: plain election
    by: str = "delete strip edit restore"  # the kinds of manual edits
    duration: str = "Two"
    identity: str = "Own"
    clientgo: str = ""
    invariants: str = "OneCommand ReleaseIsTrue NotStuck"
    traces: int = 0  # at random; 0: every state within the bounds
    depth: int = 60  # steps of each of them

    def config(self) -> str:
        """TLC's configuration."""
        alike = self.begin == "never held" and self.identity == "Own" and self.duration == "Two" and not self.clientgo
        names = ", ".join(f"c{number}" for number in range(1, self.candidates + 1))
        return _CONFIG.format(
            **asdict(self),
            names=names,
            hands=", ".join(f'"{kind}"' for kind in self.by.split()),
            coordinated=str(self.nominations > 0 or self.begin == "nominated").upper(),
            symmetry="SYMMETRY Swap" if alike and not self.traces else "",
        )


# --- the rule: every state within these bounds. `make model`

FAST = (
    Run("nobody has held it", begin="never held", versions=4),
    Run("a lost answer", versions=4, lost=1),
    Run("an elector replaced", versions=4, replaced=1),
    Run("a crash", versions=4, crashes=1),
    Run("a manual edit", versions=4, edits=1),
    Run("a lost answer, a record put back, in an instant", versions=6, edits=1, by="restore", lost=1, time=0),
    Run("unequal lease durations", duration="Unequal", versions=4),
    Run("one identity, two candidates", identity="Shared", versions=4),
    Run(
        "a client-go successor, and its name again", candidates=3, identity="Second", clientgo="c2", versions=4, time=2
    ),
    Run("nominated, a record put back", nominations=1, edits=1, by="restore"),
    Run("nominated over a leader, two records put back", begin="nominated", edits=2, by="restore", versions=8, time=2),
    Run("never held, nominated, a manual edit", begin="never held", nominations=2, edits=1, time=2),
    Run("nominated, all faults, in an instant", nominations=1, edits=1, lost=1, replaced=1, time=0),
    Run("three candidates at random", candidates=3, versions=10, edits=2, lost=2, replaced=1, crashes=1, traces=5_000),
)

# --- that somebody can lead again: each of these must be reached

REACHED = (
    Run("reached: the first leader", begin="never held", invariants="NoneFirst", versions=3),
    Run("reached: the first leader, nominated", begin="never held", invariants="NoneFirst", nominations=1, time=0),
    Run("reached: after a release", invariants="NoneAfterRelease", time=0),
    Run("reached: after a handover", invariants="NoneAfterHandover", time=0),
    Run("reached: after expiry", invariants="NoneAfterExpiry", versions=3),
    Run("reached: after a deletion", invariants="NoneAfterDeletion", edits=1, by="delete"),
    Run("reached: named over a leader", invariants="NoneAfterNomination", nominations=1),
)

# --- rules taken away, one at a time: a counterexample must be found

_PROMISE = "OneCommand ReleaseIsTrue"
VARIANTS = tuple(
    replace(run, wrong=run.name, invariants="OneCommand" if "mark" in run.name else _PROMISE)
    for run in (
        Run("t0 after the answer", versions=4),
        Run("only the first observation raises", versions=4),
        Run("own duration only", duration="Unequal", versions=4),
        Run("a gap is unbroken", edits=1, by="restore"),
        Run("gone is free", edits=1, by="delete"),
        Run("a creation raises nothing", edits=2, by="delete", versions=6, time=2),
        Run("ever held by observing only", begin="never held", edits=1, by="delete", versions=4),
        Run("replaced elector forgets ever held", edits=1, by="delete", replaced=1, versions=4),
        Run("replaced elector forgets safe_at", begin="nominated", replaced=1),
        Run("replaced elector releases", edits=1, by="restore", lost=1, replaced=1, versions=6, time=0),
        Run("now is past safe_at", begin="nominated", edits=1, by="restore", versions=7, time=2),
        Run("HOLDING raises nothing", begin="nominated", edits=2, by="restore", versions=8, time=2),
        Run("HOLDING releases", begin="nominated"),
        Run("start past the deadline", versions=4),
        Run("a lost answer counts", lost=1),
        Run("renewal without compare-and-swap", versions=5, lost=1),
        Run("identity is enough", identity="Shared", versions=4),
        Run("release before the command is dead", versions=4),
        Run("release repeated over another version", edits=1, by="restore", lost=1, versions=6, time=0),
        Run("bare mark is a handover", candidates=3, identity="Second", clientgo="c2"),
        Run("a naming is a handover", nominations=1),
        Run("a missing lock is a release", nominations=1, edits=1, by="delete"),
        Run("a gap of a missing lock is unbroken", begin="never held", nominations=2, edits=1, by="delete", versions=6),
    )
)

# --- the rule again, within wider bounds. `make model DEEP=1`

DEEP = (
    *(replace(run, versions=run.versions + 1) for run in FAST if not run.traces),
    Run("a lost answer, an elector replaced", versions=4, lost=1, replaced=1),
    Run("a crash, an elector replaced", versions=4, crashes=1, replaced=1),
    Run("two manual edits", versions=6, edits=2),
    Run("a crash, a manual edit", edits=1, crashes=1),
    Run("a manual edit, an elector replaced", edits=1, replaced=1),
    Run("three manual edits within two lease durations", versions=9, edits=3, time=4),
    Run("named, two manual edits", versions=8, nominations=1, edits=2),
    Run("all faults, for one lease duration", edits=1, lost=1, replaced=1, crashes=1, time=2),
    Run("three candidates, all faults, in an instant", candidates=3, edits=1, lost=1, replaced=1, time=0),
    replace(FAST[-1], traces=2_000_000),
)
