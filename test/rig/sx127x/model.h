/* The environment of the chip: time, air, lines, the control socket and faults of the bus. One thread runs it, CUSE's thread
 * makes the transfers; one lock. */
#ifndef SX127X_MODEL_H
#define SX127X_MODEL_H
#include "chip.h"

struct model_options {
    const char *name, *air, *control, *log, *dio[2], *reset;
    double speed;
};

/* Starts the thread; ends the program if a socket or file cannot be opened. */
void model_start(const struct model_options *);
void model_lock(void);
void model_unlock(void);
/* errno the next message fails with, 0: none; waits first if the bus should hang. */
int bus_fault(void);

/* One command of the control socket, its answer in `out`. */
void control(char *command, char *out, size_t size);

/* used by commands */
double model_now(void);
void model_speed(double speed);
void model_jump(double ms);
void bus_fail(int messages);
void bus_hang(int ms);
#endif
