------------------------------ MODULE Election ------------------------------
(***************************************************************************)
(* The lock delay: how a candidate knows that no process of an earlier     *)
(* holder is alive.  README.md beside this file says what is modelled.     *)
(*                                                                         *)
(* The lock object is a sequence of versions; a candidate is its           *)
(* supervisor and its elector, a pure step function over `State'.          *)
(* `Wrong' names one rule that is taken away; "" is the rule as it stands. *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS
  Candidates, c1, c2, c3,  \* those that contend, and their names
  nobody, stranger,        \* the holder of a released lock; a holder that does not exist
  Identity,                \* [Candidates -> Candidates]: two may share one (a StatefulSet's Pod comes back)
  D,                       \* [Candidates -> Nat]: lease durations
  ClientGo,                \* candidates that are client-go's: they keep the annotations of what they renew
  Begin,                   \* "never held", "led" by c1, "nominated": c2 besides
  Coordinated,             \* BOOLEAN: only who is named by the control plane writes (KEP-4355)
  MaxTime, MaxVersion,     \* bounds; MaxTime = Forever: time is not bounded
  Edits, Lost, Replaced, Crashes, Nominations,  \* how many of each fault, in all
  Hands,                   \* the kinds of manual edits: "delete", "strip", "edit", "restore"
  Wrong

VARIABLES
  now,      \* CLOCK_BOOTTIME, one for all: the allowance S is for clocks that differ
  history,  \* the object, version by version, in etcd's order
  late,     \* writes whose sender waits no more, still under way
  state,    \* [Candidates -> State]
  deleted_at,  \* the last manual edit that took the record away
  left      \* faults that may still happen
vars == <<now, history, late, state, deleted_at, left>>

Forever == 1000
Never   == -Forever
Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b
Longest == CHOOSE d \in {D[c] : c \in Candidates} : \A c \in Candidates : D[c] <= d

-----------------------------------------------------------------------------
(* The lock object *)

Version == Len(history)
Current == history[Version]

Record(holder, incarnation, renewed, mark, duration) ==
  [kind |-> "record", holder |-> holder, incarnation |-> incarnation,
   renewed |-> renewed, mark |-> mark, duration |-> duration]
Without(kind) == [Record(nobody, <<>>, 0, 0, 1) EXCEPT !.kind = kind]
Gone      == Without("gone")       \* there is no such object
Blank     == Without("blank")  \* there is one, and no candidate has left a record on it

IsReleased(r)  == r.kind = "record" /\ r.holder = nobody
HasNoRecord(r) == r.kind \in {"gone", "blank"}
IsMarked(r)    == r.incarnation = <<>> /\ r.mark # 0
                  /\ (r.mark = r.renewed \/ Wrong = "bare mark is a handover")
IsHandover(r)  == r.kind = "record" /\ r.holder # nobody /\ IsMarked(r)

-----------------------------------------------------------------------------
(* What a candidate remembers *)

NoRequest == [status |-> "none"]
Start ==
  [ \* kept by the supervisor, and told to every elector before it acts
    phase |-> "FOLLOWING", command |-> FALSE, incarnation |-> 1, proof |-> FALSE, t0 |-> 0,
    safe_at |-> 0, longest |-> 0, ever_held |-> "no",
    \* known to the elector alone
    \* before_write: what must be observed before the next write: nothing, any read, or a newer version
    observed |-> 0, before_write |-> "nothing", after_release |-> FALSE, watches_missing |-> FALSE, read_again |-> FALSE,
    unanswered_release_base |-> 0,
    request |-> NoRequest ]
\* RECORDING: the command is dead, and the last write renews: with --no-release, or by the next elector of one that
\* died while it released.
InTerm == {"HOLDING", "LEADING", "RELEASING", "RECORDING"}

Incarnation(c) == <<c, state[c].incarnation>>
HeldByMe(c, r) ==
  /\ r.kind = "record" /\ r.holder = Identity[c]
  /\ \/ r.incarnation = Incarnation(c)
     \/ c \in ClientGo
HandedToMe(c, r) == IsHandover(r) /\ r.holder = Identity[c]
Nominated(c, r)  == r.kind = "named" /\ r.holder = Identity[c]

L(st, c) == IF Wrong = "own duration only" THEN D[c] ELSE Max(st.longest, D[c])
Raise(st, c) == [st EXCEPT !.safe_at = Max(@, now + L(st, c))]
EverHeld(st) == CASE Wrong = "ever held by observing only" -> st.ever_held = "observed"
                 [] OTHER -> st.ever_held \notin {"no", "forgotten"}

\* kill_at: nothing of the term is sent, started or alive from this instant on
KillAt(st, c) == st.t0 + D[c]
InTime(c) == now < KillAt(state[c], c)

\* The term is over: a new incarnation, the proof gone, safe_at raised unless its end was a release.
Ended(st) ==
  [st EXCEPT !.phase = "FOLLOWING", !.command = FALSE, !.incarnation = @ + 1, !.t0 = 0,
             !.proof = FALSE, !.unanswered_release_base = 0, !.request = NoRequest]

\* The command may start: the base of the acquiring write proves it, or all earlier holders' time is over.
MayStart(st) ==
  \/ st.proof
  \/ IF Wrong = "now is past safe_at" THEN now >= st.safe_at ELSE st.t0 >= st.safe_at

-----------------------------------------------------------------------------
(* Observing *)

\* Whether an observation of version v by candidate c raises safe_at.
SameAsBefore(st, v, from_watch) ==
  \/ v = st.observed
  \/ from_watch /\ history[v] = history[st.observed]
  \/ /\ st.observed # 0 /\ history[v].kind = "gone" /\ history[st.observed].kind = "gone"
     /\ from_watch \/ ~Coordinated \/ Wrong = "a gap of a missing lock is unbroken"
NeverHeld(st, r) == ~EverHeld(st) /\ HasNoRecord(r)
Raises(c, v, from_watch) ==
  LET st == state[c]  r == history[v] IN
  ~ \/ SameAsBefore(st, v, from_watch)
    \/ NeverHeld(st, r) /\ (from_watch \/ ~Coordinated \/ st.observed = 0 \/ Wrong = "a gap of a missing lock is unbroken")
    \/ IsReleased(r)
    \/ HandedToMe(c, r)
    \/ from_watch /\ Nominated(c, r) /\ (history[st.observed].kind # "gone" \/ st.after_release)
    \/ Wrong = "only the first observation raises" /\ st.observed # 0
    \/ Wrong = "gone is free" /\ r.kind = "gone"

\* What is remembered of each observation, whatever the phase.
Noted(c, v, from_watch) ==
  LET st == state[c]  r == history[v] IN
  [st EXCEPT
    !.observed = v, !.before_write = "nothing", !.longest = Max(@, r.duration),
    !.ever_held = IF HasNoRecord(r) THEN @ ELSE "observed",
    !.watches_missing = from_watch /\ r.kind = "gone",
    !.read_again = Coordinated /\ (@ \/ (~from_watch /\ st.observed # 0 /\ v # st.observed)),
    !.after_release =
      \/ IsReleased(r)
      \/ /\ from_watch /\ r.kind = "gone"
         /\ (now >= st.safe_at /\ ~Raises(c, v, from_watch)) \/ Wrong = "a missing lock is a release"
      \/ @ /\ from_watch /\ r.kind = "named"]

Following(c, v, from_watch) ==
  LET st == Noted(c, v, from_watch) IN IF Raises(c, v, from_watch) THEN Raise(st, c) ELSE st

\* A HOLDING candidate, a leader, or one that releases reads the object after a conflict or a lost answer.
Term(c, v) ==
  LET st == state[c]  r == history[v]  noted == Noted(c, v, FALSE)
      lost == IF Raises(c, v, FALSE) THEN Raise(Ended(noted), c) ELSE Ended(noted)
      again == IF st.phase = "HOLDING" /\ v # st.observed /\ Wrong # "HOLDING raises nothing"
               THEN Raise(noted, c) ELSE noted IN
  CASE HeldByMe(c, r) /\ c \notin ClientGo ->
         IF st.phase = "RELEASING" /\ st.unanswered_release_base \notin {0, v}
            /\ Wrong # "release repeated over another version"
         THEN Raise(Ended(noted), c) ELSE again
    [] r.kind = "gone" /\ st.phase \in {"HOLDING", "LEADING"} /\ c \notin ClientGo -> again
    [] OTHER -> lost

\* Coordinated: a watch of a missing object begins without a version, and then finds the object missing. That is the
\* first look of a candidate that has never observed the lock: the promise leaves out a record taken away before.
WatchMissing(c, v) ==
  LET st == state[c] IN
  /\ Coordinated /\ st.phase = "FOLLOWING" /\ st.observed # 0 /\ st.request.status = "none"
  /\ history[st.observed].kind = "gone" /\ ~st.watches_missing /\ v >= st.observed /\ history[v].kind = "gone"
  /\ st.ever_held = "no" /\ ~st.read_again => now >= deleted_at + Longest
  /\ state' = [state EXCEPT ![c] = [Noted(c, v, TRUE) EXCEPT !.before_write = st.before_write]]
  /\ UNCHANGED <<now, history, late, deleted_at, left>>

Observe(c, v, from_watch) ==
  LET st == state[c] IN
  /\ \/ v > st.observed
     \/ v = st.observed /\ st.before_write = "read"
  /\ st.observed = 0 => v >= Version - 1
  /\ Coordinated /\ st.observed = 0 /\ st.ever_held = "no" /\ HasNoRecord(history[v]) => now >= deleted_at + Longest
  /\ from_watch => /\ st.observed # 0 /\ (history[st.observed].kind # "gone" \/ st.watches_missing) /\ v > st.observed
                   /\ v = st.observed + 1 \/ Wrong = "a gap is unbroken"
  /\ IF st.phase \in InTerm
     THEN st.request.status = "none" /\ ~from_watch /\ state' = [state EXCEPT ![c] = Term(c, v)]
     ELSE st.request.status \in {"none", "sent"} /\ state' = [state EXCEPT ![c] = Following(c, v, from_watch)]
  /\ UNCHANGED <<now, history, late, deleted_at, left>>

-----------------------------------------------------------------------------
(* Writing: always over the version that was observed *)

Request(c, kind, to) ==
  LET st == state[c] IN
  [ status |-> "sent", kind |-> kind, to |-> to, base |-> st.observed,
    create |-> history[st.observed].kind = "gone", sent_at |-> now, proof |-> FALSE,
    incarnation |-> IF kind \in {"release", "handover"} THEN <<>>
                    ELSE IF c \in ClientGo THEN history[st.observed].incarnation ELSE Incarnation(c),
    mark |-> IF c \in ClientGo THEN history[st.observed].mark ELSE 0,
    duration |-> D[c] ]
Send(c, request) ==
  /\ state[c].request.status = "none" /\ state[c].before_write = "nothing" /\ state[c].observed # 0
  /\ Version < MaxVersion
  /\ state' = [state EXCEPT ![c].request = request, ![c].ever_held = IF @ = "no" THEN "sent" ELSE @]
  /\ UNCHANGED <<now, history, late, deleted_at, left>>

\* The promise leaves out a record taken away by hand while a candidate starts that has never observed the lock.
FreshMayTake(c) == state[c].ever_held = "no" => now >= deleted_at + Longest

Acquire(c) ==
  LET st == state[c]  r == history[st.observed]
      take(proof) == Send(c, [Request(c, "acquire", Identity[c]) EXCEPT !.proof = proof]) IN
  /\ st.phase = "FOLLOWING" /\ st.observed # 0
  /\ c \in ClientGo => st.incarnation = 1 /\ HandedToMe(c, r)
  /\ IF Coordinated
     THEN Nominated(c, r) /\ FreshMayTake(c) /\ take(st.after_release \/ Wrong = "a naming is a handover")
     ELSE CASE IsReleased(r) \/ HandedToMe(c, r) -> take(TRUE)
            [] NeverHeld(st, r) -> FreshMayTake(c) /\ take(TRUE)
            [] r.holder = Identity[c] /\ Wrong = "identity is enough" -> take(TRUE)
            [] OTHER -> now >= st.safe_at /\ take(r.kind = "gone" /\ Wrong = "gone is free")

Renew(c) ==
  LET st == state[c] IN
  /\ st.phase \in {"HOLDING", "LEADING", "RECORDING"} /\ st.observed # 0 /\ InTime(c)
  /\ HeldByMe(c, history[st.observed]) \/ history[st.observed].kind = "gone"
  /\ Send(c, Request(c, "renew", Identity[c]))

\* Over the candidate's own record, once no process of the term is alive; or to a named successor.
Release(c, to) ==
  LET st == state[c] IN
  /\ \/ st.phase = "RELEASING"
     \/ st.phase = "HOLDING" /\ Wrong = "HOLDING releases"
     \/ st.phase = "LEADING" /\ Wrong = "release before the command is dead"
  /\ c \notin ClientGo /\ InTime(c) /\ st.observed # 0
  /\ HeldByMe(c, history[st.observed])
  /\ st.unanswered_release_base \in {0, st.observed} \/ Wrong = "release repeated over another version"
  /\ to # Identity[c] /\ (Coordinated => to = nobody)
  /\ Send(c, Request(c, IF to = nobody THEN "release" ELSE "handover", to))

-----------------------------------------------------------------------------
(* The API server *)

\* Compare-and-swap on uid and resourceVersion; a creation compares with nothing but the object's absence.
Matches(w) ==
  IF w.create THEN Current.kind = "gone"
  ELSE \/ w.base = Version
       \/ Wrong = "renewal without compare-and-swap" /\ w.kind = "renew" /\ Current.kind # "gone"
Written(w) ==
  Record(w.to, w.incarnation, Version + 1, IF w.kind = "handover" THEN Version + 1 ELSE w.mark, w.duration)
Appended(r, others) ==
  /\ history' = Append(history, r)
  /\ late' = {w \in others : w.create \/ w.base = Version + 1 \/ Wrong = "renewal without compare-and-swap"}

Apply(c) ==
  LET w == state[c].request IN
  /\ w.status = "sent" /\ Version < MaxVersion
  /\ IF Matches(w)
     THEN Appended(Written(w), late) /\ state' = [state EXCEPT ![c].request = [w EXCEPT !.status = "ok", !.base = Version + 1]]
     ELSE \* a 409 does not say what is there: nothing is written until a newer version was observed
          state' = [state EXCEPT ![c].request = NoRequest, ![c].before_write = "newer"] /\ UNCHANGED <<history, late>>
  /\ UNCHANGED <<now, deleted_at, left>>
ApplyLate(w) ==
  /\ w \in late /\ Version < MaxVersion /\ Matches(w) /\ Appended(Written(w), late \ {w})
  /\ UNCHANGED <<now, state, deleted_at, left>>

\* What may become of a request that nobody waits for any more while it is under way.
Abandoned(c) ==
  LET w == state[c].request IN
  IF w.status # "sent" THEN {late}
  ELSE {late, late \cup {[w EXCEPT !.sent_at = 0, !.proof = FALSE]}}

-----------------------------------------------------------------------------
(* Answers *)

WriteDone(c) ==
  LET st == state[c]  w == st.request
      counted == [st EXCEPT !.request = NoRequest, !.observed = w.base, !.before_write = "nothing", !.ever_held = "observed",
                            !.after_release = FALSE, !.longest = Max(@, D[c]),
                            !.t0 = IF Wrong = "t0 after the answer" THEN now ELSE w.sent_at]
      created == w.create /\ (w.kind = "acquire" \/ st.phase = "HOLDING")
      \* a creation is no proof of what was there before, but to who had never observed the lock
      raised == IF created /\ ~w.proof /\ Wrong # "a creation raises nothing"
                THEN Raise(counted, c) ELSE counted IN
  /\ w.status = "ok"
  /\ state' = [state EXCEPT ![c] =
       CASE w.kind = "acquire" -> [raised EXCEPT !.phase = "HOLDING", !.proof = w.proof]
         [] w.kind = "renew" -> raised
         [] OTHER -> [Ended(counted) EXCEPT !.after_release = TRUE, !.observed = w.base]]
  /\ UNCHANGED <<now, history, late, deleted_at, left>>

\* No answer, a late one, or one that does not show the write. It may have happened, or happen still.
Lose(c) ==
  LET st == state[c]  w == st.request IN
  /\ w.status \in {"sent", "ok"} /\ left.lost > 0
  /\ late' \in Abandoned(c)
  /\ state' = [state EXCEPT ![c] =
       IF Wrong = "a lost answer counts" /\ w.kind = "renew"
       THEN [st EXCEPT !.request = NoRequest, !.t0 = w.sent_at, !.before_write = "read"]
       ELSE [st EXCEPT !.request = NoRequest, !.before_write = "read",
                       !.unanswered_release_base =
                         IF w.kind \in {"release", "handover"} /\ @ = 0 THEN st.observed ELSE @]]
  /\ left' = [left EXCEPT !.lost = @ - 1]
  /\ UNCHANGED <<now, history, deleted_at>>

-----------------------------------------------------------------------------
(* Terms *)

StartCommand(c) ==
  /\ state[c].phase = "HOLDING" /\ MayStart(state[c]) /\ (InTime(c) \/ Wrong = "start past the deadline")
  /\ state' = [state EXCEPT ![c].phase = "LEADING", ![c].command = TRUE]
  /\ UNCHANGED <<now, history, late, deleted_at, left>>

\* The command has ended, or is stopped: its tree is proven empty.
StopCommand(c) ==
  /\ \/ state[c].phase = "LEADING"
     \/ state[c].phase = "HOLDING" /\ MayStart(state[c])
  /\ c \notin ClientGo /\ Wrong # "release before the command is dead"
  /\ \E phase \in {"RELEASING", "RECORDING"} : state' = [state EXCEPT ![c].phase = phase, ![c].command = FALSE]
  /\ UNCHANGED <<now, history, late, deleted_at, left>>

\* Past stop_at, or the last write was a renewal: the command is killed, the lock left to expire.
EndTerm(c) ==
  /\ state[c].phase \in InTerm
  /\ late' \in Abandoned(c)
  /\ state' = [state EXCEPT ![c] = [Raise(Ended(state[c]), c) EXCEPT !.before_write = "read"]]
  /\ UNCHANGED <<now, history, deleted_at, left>>

\* The elector died and was reaped; the supervisor starts another with what it keeps itself.
ReplaceElector(c) ==
  LET st == state[c]
      kept == [st EXCEPT !.observed = 0, !.before_write = "read", !.after_release = FALSE, !.watches_missing = FALSE,
                         !.request = NoRequest,
                         !.safe_at = IF Wrong = "replaced elector forgets safe_at" THEN 0 ELSE @,
                         !.ever_held = IF Wrong = "replaced elector forgets ever held" THEN "forgotten" ELSE @] IN
  /\ left.replaced > 0 /\ c \notin ClientGo
  /\ late' \in Abandoned(c)
  /\ state' = [state EXCEPT ![c] =
       IF st.phase = "RELEASING" /\ Wrong # "replaced elector releases"
       THEN [kept EXCEPT !.unanswered_release_base = 0, !.phase = "RECORDING"]
       ELSE [kept EXCEPT !.unanswered_release_base = 0]]
  /\ left' = [left EXCEPT !.replaced = @ - 1]
  /\ UNCHANGED <<now, history, deleted_at>>

\* The candidate dies with its tree; another process of that identity starts, which has observed nothing.
Crash(c) ==
  /\ left.crashes > 0 /\ c \notin ClientGo
  /\ late' \in Abandoned(c)
  /\ state' = [state EXCEPT ![c] = [Start EXCEPT !.incarnation = state[c].incarnation + 1]]
  /\ left' = [left EXCEPT !.crashes = @ - 1]
  /\ UNCHANGED <<now, history, deleted_at>>

-----------------------------------------------------------------------------
(* Manual edits, and the control plane *)

Edit(r) ==
  /\ left.edits > 0 /\ Version < MaxVersion
  /\ Appended(r, late) /\ left' = [left EXCEPT !.edits = @ - 1]
  /\ UNCHANGED <<now, state>>
\* With unequal durations an edit may hide the longest from who has not observed it.
AllKnowLongest == \A c \in Candidates : Max(state[c].longest, D[c]) >= Longest
TakeAway(r) ==
  /\ AllKnowLongest
  /\ ~\E c \in Candidates : state[c].request.status # "none" /\ state[c].request.create /\ state[c].request.proof
  /\ Current.kind \notin {"gone", r.kind}
  /\ Edit(r) /\ deleted_at' = now
\* Never to a release or a handover: that is what the end of a command looks like.
Restore ==
  /\ AllKnowLongest
  /\ \E v \in 1..Version : LET r == history[v] IN
       /\ r.kind = "record" /\ r.holder # nobody /\ ~(r.incarnation = <<>> /\ r.mark = r.renewed)
       /\ Edit(r)
  /\ UNCHANGED deleted_at
EditHolder ==
  /\ AllKnowLongest
  /\ Current.kind = "record" /\ Current.holder # nobody
  /\ \E holder \in {Identity[c] : c \in Candidates} \cup {stranger} :
       holder # Current.holder /\ Edit([Current EXCEPT !.holder = holder])
  /\ UNCHANGED deleted_at
ManualEdit ==
  \/ "delete"  \in Hands /\ TakeAway(Gone)
  \/ "strip"   \in Hands /\ TakeAway(Blank)
  \/ "edit"    \in Hands /\ EditHolder
  \/ "restore" \in Hands /\ Restore

\* The control plane names a candidate whenever its own clock says so, over whatever is there.
Nominate(c) ==
  /\ Coordinated /\ left.nominations > 0 /\ Version < MaxVersion
  /\ ~Nominated(c, Current)
  /\ Appended([Record(Identity[c], Current.incarnation, Version + 1, 0, D[c]) EXCEPT !.kind = "named"], late)
  /\ left' = [left EXCEPT !.nominations = @ - 1]
  /\ UNCHANGED <<now, state, deleted_at>>

-----------------------------------------------------------------------------

\* Time goes on once every command whose deadline has come is dead: three actors see to that.
Tick ==
  /\ now < MaxTime
  /\ \A c \in Candidates : state[c].command => now + 1 < KillAt(state[c], c) \/ Wrong = "start past the deadline"
  /\ now' = now + 1
  /\ UNCHANGED <<history, late, state, deleted_at, left>>

\* Nobody has ever held the lock; or c1 leads, and the others have just observed it; or c2 was then nominated over c1
\* by the control plane, has written the lock, and is HOLDING until c1's lease has run out.
First == Record(Identity[c1], <<c1, 1>>, 2, 0, D[c1])
Led ==
  [c \in Candidates |->
     LET st == [Start EXCEPT !.observed = 2, !.ever_held = "observed", !.longest = D[c1]] IN
     IF c = c1 THEN [st EXCEPT !.phase = "LEADING", !.command = TRUE, !.proof = TRUE]
     ELSE [st EXCEPT !.safe_at = Max(D[c], D[c1])]]
Init ==
  /\ late = {}
  /\ CASE Begin = "never held" ->
            now = 0 /\ history = <<Gone>> /\ state = [c \in Candidates |-> Start]
       [] Begin = "led" ->
            now = 0 /\ history = <<Gone, First>> /\ state = Led
       [] Begin = "nominated" ->
            /\ now = 1
            /\ history = <<Gone, First, [Record(Identity[c2], <<c1, 1>>, 3, 0, D[c2]) EXCEPT !.kind = "named"],
                           Record(Identity[c2], <<c2, 1>>, 4, 0, D[c2])>>
            /\ state = [Led EXCEPT ![c2].phase = "HOLDING", ![c2].t0 = 1, ![c2].observed = 4]
  /\ deleted_at = Never /\ left = [edits |-> Edits, lost |-> Lost, replaced |-> Replaced, crashes |-> Crashes, nominations |-> Nominations]

Work(c) ==
  \/ Acquire(c) \/ Apply(c) \/ WriteDone(c) \/ StartCommand(c)
  \/ \E v \in 1..Version, from_watch \in BOOLEAN : Observe(c, v, from_watch)
  \/ \E v \in 1..Version : WatchMissing(c, v)
Next ==
  \/ Tick \/ ManualEdit \/ \E w \in late : ApplyLate(w)
  \/ \E c \in Candidates :
       \/ Work(c) \/ Renew(c) \/ StopCommand(c) \/ EndTerm(c)
       \/ Lose(c) \/ ReplaceElector(c) \/ Crash(c) \/ Nominate(c)
       \/ \E to \in {nobody} \cup {Identity[o] : o \in Candidates} : Release(c, to)
Spec == Init /\ [][Next]_vars

=============================================================================
