/* Copies of data that waits to be sent, acknowledged or read. */
#include "quic.h"

#include <stdlib.h>
#include <string.h>

bool queue_put(struct queue *queue, const uint8_t *bytes, size_t length) {
    struct chunk *chunk = malloc(sizeof *chunk + length);
    if (!chunk)
        return false;
    *chunk = (struct chunk){.length = length};
    if (length > 0)
        memcpy(chunk->bytes, bytes, length);
    if (queue->last)
        queue->last->next = chunk;
    else
        queue->first = chunk;
    queue->last = chunk;
    queue->count++;
    return true;
}

/* Removes the first one. */
void queue_drop(struct queue *queue) {
    struct chunk *first = queue->first;
    queue->first = first->next;
    if (!queue->first)
        queue->last = NULL;
    queue->count--;
    free(first);
}

void queue_clear(struct queue *queue) {
    while (queue->first)
        queue_drop(queue);
}
