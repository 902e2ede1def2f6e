"""The kinds of lock, a module each, over kleader.kube.

A kind of lock is a class with the methods of base.Lock, mostly a subclass of object_lock.ObjectLock. To add one: its
class, its rows in factory.py (the class; a branch of make_lock, if it takes more arguments than others) and rbac.py
(its permissions), its name in cli/types.py (LOCKS), and how ``status`` reads it in observe/decode.py.
tests/cluster/contract.py holds what every kind promises.
"""
