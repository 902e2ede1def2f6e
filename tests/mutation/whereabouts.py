"""The guards that are in where a lock is sought: candidates that ask another cluster or namespace are no rivals."""

from __future__ import annotations

from tests.mutation.guard import Guard

MUTANTS = [
    Guard(
        "of several kubeconfigs the first current context is used, as by every other client",
        "kube.kubeconfig:_merged",
        "merged['current-context'] or parsed['current-context']",
        "parsed['current-context'] or merged['current-context']",
        "unit/test_kubeconfig.py::test_first_current_context_counts_and_paths_are_relative_to_their_own_file",
    ),
    Guard(
        "of several kubeconfigs the first that has an entry is right",
        "kube.kubeconfig:_merged",
        "merged[kind] = parsed[kind] | merged[kind]",
        "merged[kind] |= parsed[kind]",
        "unit/test_kubeconfig.py::test_entry_of_the_first_kubeconfig_is_not_merged_with_a_later_one",
    ),
    Guard(
        "the context's namespace comes before the Pod's, so that the same kubeconfig is the same lock everywhere",
        "kube.credentials:Credentials.namespace",
        "self._access.get('namespace') or _namespace_of_pod() or 'default'",
        "_namespace_of_pod() or self._access.get('namespace') or 'default'",
        "unit/test_kubeconfig.py::test_namespace_of_the_context_comes_before_the_pod_s",
    ),
    Guard(
        "no credential is sent without TLS",
        "kube.kubeconfig:resolve",
        "access['server'].lower().startswith('https://')",
        "True",
        "unit/test_kubeconfig.py::test_no_credential_is_read_or_sent_without_tls_and_a_notice_says_so",
    ),
]
