"""The types of lock, a module each, over kleader.kube.

A type of lock is a class with the methods of base.Lock, mostly a subclass of object_lock.ObjectLock. To add one: its
class; its rows in factory.py (and a branch of make_lock, if it takes more arguments than others) and rbac.py (its
permissions); its name in cli/types.py (LOCKS); and how ``status`` finds and reads it (observe/kube_source.py,
observe/decode.py). tests/cluster/contract.py holds what every type promises.
"""
