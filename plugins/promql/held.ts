/**
 * What questions hold until their callers have taken the answers: values, samples and label sets, counted with the rows of other plugins' queries (`server.max_held_memory`).
 * Small ones are not counted, so that dashboards wait for nobody.
 */
import type { JobIo, Reader } from 'svcdb'
import { heldRows, type RowHold } from 'svcdb/lib/columns'

/** From so many bytes on a question counts. */
const LEAST_BYTES = 1 << 20

export interface HeldArgs {
  namespace: string
  /** What all queries of the thread may hold: server.max_held_memory. */
  maxHeldBytes: number
}

/** @param work is given a way out that knows what waits for the caller. */
export function holding<T>(reader: Reader, { namespace, maxHeldBytes }: HeldArgs, io: JobIo, work: (hold: RowHold, io: JobIo) => Promise<T>): Promise<T> {
  const { signal, partial } = io
  return heldRows.during({ namespace, limit: maxHeldBytes, engineLimit: reader.memoryLimit, least: LEAST_BYTES, signal }, (hold) => {
    const emit = (bytes: Uint8Array): Promise<void> => {
      hold.gathered()
      return hold.taken(io.emit(bytes))
    }
    return work(hold, partial === undefined ? { signal, emit } : { signal, emit, partial })
  })
}
