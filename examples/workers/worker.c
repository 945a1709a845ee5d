/* A worker in C, with nothing but the C library: it claims jobs over REST, keeps their leases while it works, and says
 * how they ended. It does the tasks `primes` {"below": N} and `nap` {"seconds": N}.
 *
 *     cc -std=c11 -O2 -Wall -Wextra -o worker worker.c
 *     TICKWORK_API=http://127.0.0.1:8700 TICKWORK_TOKEN=... ./worker [QUEUE]
 *
 * A job runs in a child process, so that this one can send heartbeats meanwhile and end it when it has to. Speaks plain
 * HTTP: put a proxy on the same machine where the way to the server is not safe.
 *
 * SIGTERM or Ctrl-C: the job that runs may end within 5 seconds, or else is given back, uncharged. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { GRACE_S = 5, LOST = 409 };

static volatile sig_atomic_t stopping;
static const char *token;
static char host[256], port[16], name[64];
static int lease_s = 10;

static void stop(int signal) { (void)signal; stopping = 1; }

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* -- texts that grow */

typedef struct { char *data; size_t length; } Text;

static void add(Text *text, const char *data, size_t length) {
    char *grown = realloc(text->data, text->length + length + 1);
    if (!grown) { perror("realloc"); exit(1); }
    text->data = grown;
    memcpy(grown + text->length, data, length);
    text->length += length;
    grown[text->length] = 0;
}

static void print(Text *text, const char *format, ...) {
    char buffer[1024];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(buffer, sizeof buffer, format, values);
    va_end(values);
    add(text, buffer, length < (int)sizeof buffer ? (size_t)length : sizeof buffer - 1);
}

static void clear(Text *text) { free(text->data); *text = (Text){0}; }

/* -- JSON: as much of it as is needed to find a value in an object, and to write a string */

static const char *skip_space(const char *at) { return at + strspn(at, " \t\r\n"); }

static const char *skip_string(const char *at) {
    for (at++; *at && *at != '"'; at++) if (*at == '\\' && at[1]) at++;
    return *at ? at + 1 : at;
}

static const char *skip_value(const char *at) {
    int depth = 0;
    if (*at == '"') return skip_string(at);
    if (*at != '{' && *at != '[') return at + strcspn(at, ",}] \t\r\n");
    do {
        if (*at == '"') { at = skip_string(at); continue; }
        if (*at == '{' || *at == '[') depth++;
        if (*at == '}' || *at == ']') depth--;
        at++;
    } while (depth && *at);
    return at;
}

/* Where the value of a key of an object begins; NULL: it has no such key. */
static const char *value_of(const char *object, const char *key) {
    if (!object) return NULL;
    const char *at = skip_space(object);
    if (*at != '{') return NULL;
    at = skip_space(at + 1);
    while (*at == '"') {
        const char *end = skip_string(at);
        int found = (size_t)(end - at) == strlen(key) + 2 && !strncmp(at + 1, key, strlen(key));
        at = skip_space(skip_space(end) + 1);
        if (found) return at;
        at = skip_space(skip_value(at));
        if (*at == ',') at = skip_space(at + 1);
    }
    return NULL;
}

static double number_of(const char *object, const char *key) {
    const char *at = value_of(object, key);
    return at ? strtod(at, NULL) : -1;
}

/* A string without escapes, which ids and names of tasks are. */
static void string_of(const char *object, const char *key, char *into, size_t size) {
    const char *at = value_of(object, key);
    size_t length = at && *at == '"' ? (size_t)(skip_string(at) - at) - 2 : 0;
    if (length >= size) length = size - 1;
    memcpy(into, at ? at + 1 : "", length);
    into[length] = 0;
}

static void add_quoted(Text *text, const char *data, size_t length) {
    add(text, "\"", 1);
    for (size_t i = 0; i < length; i++) {
        unsigned char one = (unsigned char)data[i];
        if (one == '"' || one == '\\') print(text, "\\%c", one);
        else if (one < 0x20 || one > 0x7e) print(text, "\\u%04x", one);
        else add(text, &data[i], 1);
    }
    add(text, "\"", 1);
}

/* -- HTTP/1.1, a connection for each request */

static int connected(void) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found, *one;
    int out = -1;
    if (getaddrinfo(host, port, &hints, &found)) return -1;
    for (one = found; one && out < 0; one = one->ai_next) {
        out = socket(one->ai_family, one->ai_socktype, one->ai_protocol);
        if (out >= 0 && connect(out, one->ai_addr, one->ai_addrlen)) { close(out); out = -1; }
    }
    freeaddrinfo(found);
    return out;
}

/* Post JSON, and leave the answer's body in `answer`. Returns the status; 0: there was no answer in time, or a poll that
 * `may_stop` was ended by a signal. Where we hang up like this, the server gives us nothing. */
static int post(const char *path, const Text *body, Text *answer, double limit_s, int may_stop) {
    Text sent = {0}, got = {0};
    double until = seconds() + limit_s;
    int at = connected(), status = 0;
    if (at < 0) return 0;
    print(&sent, "POST /api/v1%s HTTP/1.1\r\nHost: %s:%s\r\nConnection: close\r\n", path, host, port);
    print(&sent, "Authorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n", token, body->length);
    add(&sent, body->data, body->length);
    for (size_t done = 0; done < sent.length;) {
        ssize_t count = send(at, sent.data + done, sent.length - done, MSG_NOSIGNAL);
        if (count < 0 && errno != EINTR) goto over;
        if (count > 0) done += (size_t)count;
    }
    for (;;) {
        char buffer[4096];
        struct pollfd wait = {at, POLLIN, 0};
        double left = until - seconds();
        if (left <= 0 || (may_stop && stopping)) goto over;
        if (poll(&wait, 1, left < 1 ? (int)(left * 1000) + 1 : 1000) <= 0) continue;
        ssize_t count = recv(at, buffer, sizeof buffer, 0);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) break;
        add(&got, buffer, (size_t)count);
    }
    const char *head = got.data ? strstr(got.data, "\r\n\r\n") : NULL;
    if (head && sscanf(got.data, "HTTP/1.%*d %d", &status) == 1)
        add(answer, head + 4, got.length - (size_t)(head + 4 - got.data));
over:
    close(at);
    clear(&sent);
    clear(&got);
    return status;
}

/* -- an attempt */

typedef struct { char id[64], task[256], claim[65]; int attempt; const char *args; } Job;

/* Say something of an attempt; `more` is what follows its name in the body. Returns the status. */
static int tell(const Job *job, const char *verb, const char *more, Text *answer) {
    char path[128];
    Text body = {0}, dropped = {0};
    Text *told = answer ? answer : &dropped;
    snprintf(path, sizeof path, "/jobs/%s/%s", job->id, verb);
    print(&body, "{\"attempt\": %d, \"claim\": \"%s\"", job->attempt, job->claim);
    if (more) { add(&body, ", ", 2); add(&body, more, strlen(more)); }
    add(&body, "}", 1);
    int status = post(path, &body, told, 15, 0);
    if (status == LOST) fprintf(stderr, "%s: %s of %s was refused: %s\n", name, verb, job->id, told->data);
    clear(&body);
    clear(&dropped);
    return status;
}

/* What the child does: the result as JSON on stdout, lines for the log on stderr; an exit code that is not 0: it failed. */
static int work(const Job *job) {
    if (!strcmp(job->task, "primes")) {
        long below = (long)number_of(job->args, "below"), count = 0;
        if (below < 0) { fprintf(stderr, "primes takes a number, below\n"); return 1; }
        fprintf(stderr, "counting below %ld\n", below);
        for (long one = 2; one < below; one++) {
            long factor = 2;
            while (factor * factor <= one && one % factor) factor++;
            count += factor * factor > one;
        }
        printf("{\"count\": %ld}", count);
        return 0;
    }
    if (!strcmp(job->task, "nap")) {
        double left = number_of(job->args, "seconds");
        struct timespec nap = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
        fprintf(stderr, "napping\n");
        nanosleep(&nap, NULL);
        printf("null");
        return 0;
    }
    fprintf(stderr, "there is no task %s here\n", job->task);
    return 1;
}

static pid_t begin(const Job *job, int out[2], int log[2]) {
    if (pipe(out) || pipe(log)) { perror("pipe"); exit(1); }
    pid_t child = fork();
    if (child < 0) { perror("fork"); exit(1); }
    if (!child) {
        signal(SIGTERM, SIG_DFL);
        signal(SIGINT, SIG_IGN);
        dup2(out[1], STDOUT_FILENO);
        dup2(log[1], STDERR_FILENO);
        for (int i = 0; i < 2; i++) { close(out[i]); close(log[i]); }
        int code = work(job);
        fflush(stdout);
        _exit(code);
    }
    close(out[1]);
    close(log[1]);
    return child;
}

static int read_some(int *from, Text *into) {
    char buffer[4096];
    ssize_t count = read(*from, buffer, sizeof buffer);
    if (count > 0) add(into, buffer, (size_t)count);
    if (!count) { close(*from); *from = -1; }
    return count > 0;
}

/* Read what the child writes until it has ended, with a heartbeat three times in the length of the lease. Returns 0 when
 * the job is not to be told of any more: it was lost, or given back. */
static int attend(const Job *job, pid_t child, int out, int log, Text *result, Text *lines) {
    double beat_at = seconds() + lease_s / 3.0, stop_at = 0;
    char more[32];
    snprintf(more, sizeof more, "\"lease\": %d", lease_s);
    while (out >= 0 || log >= 0) {
        struct pollfd waits[2] = {{out, POLLIN, 0}, {log, POLLIN, 0}};
        if (poll(waits, 2, 100) > 0) {
            if (waits[0].revents) read_some(&out, result);
            if (waits[1].revents) read_some(&log, lines);
        }
        if (stopping && !stop_at) stop_at = seconds() + GRACE_S;
        if (stop_at && seconds() > stop_at) {
            kill(child, SIGKILL);
            tell(job, "release", NULL, NULL);
            break;
        }
        if (seconds() < beat_at) continue;
        beat_at = seconds() + lease_s / 3.0;
        Text answer = {0};
        int status = tell(job, "heartbeat", more, &answer);
        const char *cancel = status == 200 ? value_of(answer.data, "cancel") : NULL;
        if (status == LOST || (cancel && *cancel == 't')) kill(child, SIGKILL);
        clear(&answer);
        if (status == LOST) break;
    }
    int told = out < 0 && log < 0;
    if (out >= 0) close(out);
    if (log >= 0) close(log);
    return told;
}

/* Say how a job ended. What it wrote comes first, so that it is there with the end. */
static void conclude(const Job *job, int status, const Text *result, const Text *lines) {
    Text more = {0};
    if (lines->length) {
        print(&more, "\"seq\": 0, \"text\": ");
        add_quoted(&more, lines->data, lines->length);
        tell(job, "log", more.data, NULL);
        clear(&more);
    }
    int succeeded = WIFEXITED(status) && !WEXITSTATUS(status);
    if (succeeded) {
        print(&more, "\"result\": ");
        add(&more, result->data, result->length);
    } else {
        Text error = {0};
        print(&error, WIFEXITED(status) ? "exit code %d\n" : "signal %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        add(&error, lines->data ? lines->data : "", lines->length);
        print(&more, "\"error\": ");
        add_quoted(&more, error.data, error.length);
        clear(&error);
    }
    tell(job, succeeded ? "complete" : "fail", more.data, NULL);
    clear(&more);
}

static void run(const Job *job) {
    int out[2], log[2], status = 0;
    Text result = {0}, lines = {0};
    fprintf(stderr, "%s: %s %s\n", name, job->id, job->task);
    pid_t child = begin(job, out, log);
    int told = attend(job, child, out[0], log[0], &result, &lines);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (told) conclude(job, status, &result, &lines);
    clear(&result);
    clear(&lines);
}

/* Ask for a job, wait for one up to 20 seconds, and do it. Returns 0 when the server did not answer as it should. */
static int poll_once(const char *queue) {
    Text asked = {0}, answer = {0};
    print(&asked, "{\"queues\": [\"%s\"], \"tasks\": [\"primes\", \"nap\"], \"worker\": \"%s\", \"wait\": 20, \"lease\": %d}",
          queue, name, lease_s);
    int status = post("/leases", &asked, &answer, 40, 1);
    const char *jobs = status == 200 ? value_of(answer.data, "jobs") : NULL;
    const char *first = jobs ? skip_space(jobs + 1) : "";
    if (*first == '{') {
        Job job = {.attempt = (int)number_of(first, "attempt"), .args = value_of(first, "args")};
        string_of(first, "id", job.id, sizeof job.id);
        string_of(first, "task", job.task, sizeof job.task);
        string_of(first, "claim", job.claim, sizeof job.claim);
        run(&job);
    } else if (status != 200 && !stopping) {
        fprintf(stderr, "%s: no work: status %d %s\n", name, status, answer.data ? answer.data : "");
    }
    clear(&asked);
    clear(&answer);
    return status == 200;
}

int main(int count, char **arguments) {
    const char *api = getenv("TICKWORK_API"), *lease = getenv("TICKWORK_LEASE");
    struct sigaction action = {.sa_handler = stop};  /* without SA_RESTART: a signal ends what waits */
    token = getenv("TICKWORK_TOKEN");
    if (!api || !token || sscanf(api, "http://%255[^:/]:%15[0-9]", host, port) != 2) {
        fprintf(stderr, "set TICKWORK_API, such as http://127.0.0.1:8700, and TICKWORK_TOKEN, an API key that may work\n");
        return 2;
    }
    if (lease && atoi(lease) > 0) lease_s = atoi(lease);
    snprintf(name, sizeof name, "c-%ld", (long)getpid());
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    const char *queue = count > 1 ? arguments[1] : "default";
    fprintf(stderr, "%s: waiting for jobs in %s\n", name, queue);
    while (!stopping)
        if (!poll_once(queue) && !stopping) sleep(1);
    fprintf(stderr, "%s: stopped\n", name);
    return 0;
}
