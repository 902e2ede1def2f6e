/*
 * Starts a program of the tree by the tree's own loader, C library and Python, wherever the tree was put.
 *
 * TREE/bin/python3 ARG...   is Python, sys.executable too;
 * TREE/bin/NAME ARG...      is TREE/lib/kleader/bin/NAME, isolated from the environment.
 *
 * The environment is passed on as it is, but for LD_PRELOAD, which is for the image's C library: kleader/preload.py gives
 * it back. The loader's file is called kleader, so that ps shows each process as kleader.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOT_STARTED 125 /* kleader's exit status for it */

static char tree[PATH_MAX], python[PATH_MAX], library[PATH_MAX], loader[PATH_MAX], binary[PATH_MAX], script[PATH_MAX];

static int fail(const char *what)
{
    dprintf(2, "error: %s: %s\n", what, strerror(errno));
    return NOT_STARTED;
}

int main(int argc, char **argv)
{
    if (argc < 1)
        return NOT_STARTED;
    ssize_t length = readlink("/proc/self/exe", tree, sizeof tree - 64);
    if (length < 0)
        return fail("kleader needs /proc: /proc/self/exe");
    tree[length] = '\0';
    char *name = strrchr(tree, '/');
    *name++ = '\0';
    char *bin = strrchr(tree, '/');
    *bin = '\0';
    snprintf(python, sizeof python, "%s/bin/python3", tree);
    snprintf(library, sizeof library, "%s/lib", tree);
    snprintf(loader, sizeof loader, "%s/lib/loader/kleader", tree);
    snprintf(binary, sizeof binary, "%s/lib/loader/python3", tree);
    snprintf(script, sizeof script, "%s/lib/kleader/bin/%s", tree, name);

    const char *preload = getenv("LD_PRELOAD");
    if (preload && (setenv("KLEADER_LD_PRELOAD", preload, 1) || unsetenv("LD_PRELOAD")))
        return fail("LD_PRELOAD");

    char *command[argc + 10];
    int count = 0;
    command[count++] = "kleader";
    command[count++] = "--inhibit-cache"; /* it lists the libraries of the system around */
    command[count++] = "--argv0";
    command[count++] = python;
    command[count++] = "--library-path";
    command[count++] = library;
    command[count++] = binary;
    if (strcmp(name, "python3") != 0) {
        command[count++] = "-IS";
        command[count++] = script;
        if (getpid() == 1) { /* loses a signal without a handler; kleader/cli/main.py takes them once Python runs */
            sigset_t ends;
            sigemptyset(&ends);
            sigaddset(&ends, SIGTERM);
            sigaddset(&ends, SIGINT);
            sigprocmask(SIG_BLOCK, &ends, NULL);
        }
    }
    memcpy(&command[count], argv + 1, argc * sizeof *argv); /* and the NULL at their end */
    execv(loader, command);
    return fail(loader);
}
