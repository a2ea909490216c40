/**
 * The process-wide header in shared memory, by which engine threads see whole batches only.
 *
 * Invariants
 * - The main thread alone writes what threads share; engine threads only read.
 * - `Shared.SEQ` is a sequence lock: odd while a batch is being applied. A reader takes the row counts it needs, and if SEQ was odd
 *   or has moved, takes them again. `Shared.EVENTS` counts the state events published so far: a reader that has applied fewer lacks chunks
 *   of batches that are visible already, and lets the messages under way come in first. Then it sees whole batches only.
 * - What a reader takes while the writer may change it (SEQ, EVENTS, row counts, flags, the summary) is read and written by Atomics; everything else
 *   was written before a count that the reader has loaded. Nothing relies on the order that a processor happens to keep (docs/decisions/024).
 */

/** Int32 slots of the process-wide shared header. The halves of the key of hashes are there before an engine thread starts. */
export const Shared = { SEQ: 0, SERIES: 1, SYMBOLS: 2, EVENTS: 3, HASH_KEY_LOW: 4, HASH_KEY_HIGH: 5, SLOTS: 16 } as const
