// The server itself: C, because it forks before Go begins.
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { listener = 3, most = 1024, longest = 1 << 20 };
static struct pollfd watched[most]; // the signals of children, the listener, and a connection for each child
static pid_t child[most];
static int count;

static void die(const char *what) {
  perror(what);
  _exit(70);
}

static void forget(int i) {
  if (watched[i].fd >= 0) close(watched[i].fd);
  watched[i] = watched[--count];
  child[i] = child[count];
}

// become makes this copy the process that was asked for: text has its folder and its variables, each with a NUL.
static void become(char *text, ssize_t length, int *files, char **environment) {
  for (int i = 0; i < count; i++) {
    close(watched[i].fd);
  }
  int none = open("/dev/null", O_RDONLY);
  if (none < 0 || dup2(none, 0) < 0 || dup2(files[0], 1) < 0 || dup2(files[1], 2) < 0) die("forkserver: files");
  for (int fd = 3; fd < 2 * most; fd++) {
    close(fd);
  }
  sigset_t nothing;
  sigemptyset(&nothing);
  if (sigprocmask(SIG_SETMASK, &nothing, NULL) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) die("forkserver: signals");
  if (chdir(text) != 0) die("forkserver: folder");
  // Go reads its variables from here, up to a null. What follows is no auxiliary vector, so it reads that from /proc.
  char **to = environment;
  for (char *from = text + strlen(text) + 1; from < text + length; from += strlen(from) + 1) {
    if (*to == NULL) die("forkserver: too many variables");
    *to++ = from;
  }
  while (*to != NULL) {
    *to++ = NULL;
  }
  environ = environment;  // for getenv: libraries have moved it
  // Go seeds its random numbers with these.
  if (getrandom((void *)getauxval(AT_RANDOM), 16, 0) != 16) die("forkserver: random bytes");
}

// asked reads a request from a new connection and forks. It returns 1 in the copy.
static int asked(char **environment) {
  static char text[longest];
  int files[2], connection = accept4(watched[1].fd, NULL, NULL, SOCK_CLOEXEC);
  if (connection < 0) die("forkserver: accept");
  char control[CMSG_SPACE(sizeof files)];
  struct iovec part = {text, sizeof text};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  ssize_t length = recvmsg(connection, &message, 0);
  struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
  if (length <= 0 || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || rights == NULL ||
      rights->cmsg_len != CMSG_LEN(sizeof files) || count == most) {
    close(connection); // the caller sees the end
    return 0;
  }
  memcpy(files, CMSG_DATA(rights), sizeof files);
  pid_t pid = fork();
  if (pid == 0) {
    become(text, length, files, environment);
    return 1;
  }
  close(files[0]);
  close(files[1]);
  if (pid < 0) {
    close(connection);
    return 0;
  }
  int32_t answer = pid;
  if (send(connection, &answer, sizeof answer, MSG_NOSIGNAL) != sizeof answer) kill(pid, SIGKILL);
  watched[count] = (struct pollfd){connection, 0, 0}; // its end is always told
  child[count++] = pid;
  return 0;
}

static void ended(void) {
  struct signalfd_siginfo signal;
  if (read(watched[0].fd, &signal, sizeof signal) < 0) die("forkserver: signals");
  int status;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    for (int i = 2; i < count; i++) {
      if (child[i] == pid) {
        int32_t answer = status;
        send(watched[i].fd, &answer, sizeof answer, MSG_NOSIGNAL);
        forget(i);
        break;
      }
    }
  }
}

// serve runs when all libraries are loaded, and before Go. It comes back in the copies alone.
__attribute__((constructor)) static void serve(int argc, char **argv, char **environment) {
  (void)argc, (void)argv;
  if (getenv("PAIRSTREAM_TEST_FORKS") == NULL) return;
  sigset_t children;
  sigemptyset(&children);
  sigaddset(&children, SIGCHLD);
  if (sigprocmask(SIG_BLOCK, &children, NULL) != 0) die("forkserver: signals");
  watched[0] = (struct pollfd){signalfd(-1, &children, SFD_CLOEXEC), POLLIN, 0};
  watched[1] = (struct pollfd){listener, POLLIN, 0};
  count = 2;
  for (;;) {
    if (poll(watched, count, -1) < 0) die("forkserver: poll");
    for (int i = count - 1; i >= 2; i--) {
      if (watched[i].revents & (POLLHUP | POLLERR)) {
        // Who started it is gone. When it has ended it is forgotten.
        kill(child[i], SIGKILL);
        close(watched[i].fd);
        watched[i].fd = -1;
      }
    }
    if (watched[0].revents) ended();
    if (watched[1].revents && asked(environment)) return;
  }
}
