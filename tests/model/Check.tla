-------------------------------- MODULE Check --------------------------------
(* What TLC checks of Election.tla, and how it keeps the number of states small. *)
EXTENDS Election

Own    == [c \in Candidates |-> c]
Shared == [c \in Candidates |-> c1]
Second == [c \in Candidates |-> IF c = c1 THEN c1 ELSE c2]
Two    == [c \in Candidates |-> 2]
Unequal == [c \in Candidates |-> IF c = c1 THEN 2 ELSE 1]
Swap   == Permutations(Candidates)

-----------------------------------------------------------------------------
(* The promise: no process started for an earlier leader is alive while another candidate leads. *)
OneCommand == \A a, b \in Candidates : state[a].command /\ state[b].command => a = b

\* A released lock, or one handed over, says that nothing is alive.
ReleaseIsTrue == IsReleased(Current) \/ IsHandover(Current) => \A c \in Candidates : ~state[c].command

\* Somebody can lead again: where nothing is under way and no time left to wait for, a candidate can act.
Idle(c) == LET st == state[c] IN
  /\ st.phase = "FOLLOWING" /\ st.request.status = "none" /\ st.observed = Version /\ st.before_write = "nothing"
  /\ now >= st.safe_at
NotStuck ==
  (/\ \A c \in Candidates \ ClientGo : Idle(c)
   /\ late = {} /\ now >= deleted_at + Longest /\ Version < MaxVersion /\ ~Coordinated)
  => \E c \in Candidates \ ClientGo : ENABLED Acquire(c)

\* Each of these must be violated: another candidate can lead, by each road.
Passed(what(_)) == (\E c \in Candidates : state[c].command /\ state[c].incarnation = 1 /\ (Begin = "led" => c # c1))
                   /\ \E v \in 2..Version : what(history[v])
GivenUp(r) == IsReleased(r) \/ IsHandover(r)
NoneFirst           == \A c \in Candidates : ~state[c].command
NoneAfterRelease    == ~Passed(IsReleased)
NoneAfterHandover   == ~Passed(IsHandover)
NoneAfterNomination == LET named(r) == r.kind = "named" IN ~Passed(named)
NoneAfterDeletion   == LET gone(r) == r.kind = "gone" IN ~Passed(gone) \/ Passed(GivenUp)
NoneAfterExpiry     == LET other(r) == r.kind # "record" IN
                       LET any(r) == TRUE IN ~Passed(any) \/ Passed(GivenUp) \/ Passed(other)

-----------------------------------------------------------------------------
(* States that differ only in how long ago things happened are one: instants are seen from now. *)
In(instant) == Max(instant - now, 0)
SeenIncarnation(i) == IF i = <<>> THEN i ELSE <<i[1], i[2] = state[i[1]].incarnation>>
SeenRequest(c) ==
  LET st == state[c]  w == st.request IN
  IF w.status = "none" THEN w
  ELSE [w EXCEPT !.sent_at = <<In(w.sent_at + D[c]), w.sent_at >= st.safe_at>>,
                 !.incarnation = SeenIncarnation(@)]
SeenState(c) ==
  LET st == state[c] IN
  [st EXCEPT !.safe_at = In(@), !.incarnation = 0, !.request = SeenRequest(c),
             !.t0 = IF st.phase \in InTerm THEN <<In(KillAt(st, c)), st.t0 >= st.safe_at>> ELSE 0]
Oldest == LET all == {IF state[c].observed = 0 THEN Max(Version - 1, 1) ELSE state[c].observed : c \in Candidates}
          IN CHOOSE v \in all : \A u \in all : v <= u
SeenVersion(v) ==
  LET r == history[v] IN
  IF v < Oldest /\ (left.edits = 0 \/ r.kind # "record" \/ r.holder = nobody) THEN 0
  ELSE [r EXCEPT !.incarnation = SeenIncarnation(@),
                 !.mark = <<@ = 0, @ = r.renewed>>,
                 !.renewed = IF left.edits > 0 THEN @ ELSE v > 1 /\ r = history[Max(v - 1, 1)]]
View ==
  << IF MaxTime = Forever THEN 0 ELSE now,
     [v \in 1..Version |-> SeenVersion(v)],
     {[w EXCEPT !.incarnation = SeenIncarnation(@)] : w \in late},
     [c \in Candidates |-> SeenState(c)],
     In(deleted_at + Longest), left >>

=============================================================================
