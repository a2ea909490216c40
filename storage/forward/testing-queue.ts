/** For tests: a queue on a simulated disk, and what is written to it and read of it. */
import { basename } from 'node:path'
import { WriteBatch } from 'svcdb/lib/columns'
import { limitsOf } from '../common/limits.ts'
import type { FileSystem } from '../common/log/file-system.ts'
import { failure, type LogDisk } from '../embedded/testing/log-disk.ts'
import { Queue } from './queue.ts'
import type { QueueBounds } from './queue-types.ts'
import type { QueuePosition } from './sender-positions.ts'
import { SeriesNames } from './series.ts'

export const READER = 'reader'
const BOUNDS: QueueBounds = { maxBytes: 1 << 30, maxAgeMs: 0, whenFull: 'refuse', fileBytes: 2048 }

/** What the queue calls beside the log. */
function filesOn(disk: LogDisk, aside: Map<string, Uint8Array>, unsized?: string): FileSystem {
  const bytesOf = (path: string) => disk.files.get(basename(path))
  const open = async (path: string, flags: string) => {
    const bytes = bytesOf(path)
    if (bytes === undefined && flags === 'r') throw failure('ENOENT')
    return {
      read: async (buffer: Uint8Array, offset: number, length: number, position: number) => {
        const part = (bytes as Uint8Array).subarray(position, position + length)
        buffer.set(part, offset)
        return { bytesRead: part.length }
      },
      writeFile: async (given: Uint8Array) => void aside.set(path, Uint8Array.from(given)),
      close: async () => {},
    }
  }
  const sizeSync = (path: string) => {
    if (basename(path) === unsized) throw failure('EIO')
    return bytesOf(path)?.length
  }
  const more = { sizeSync, mkdirSync() {}, promises: { open } }
  return { ...disk.fs, ...more } as unknown as FileSystem
}

/** `aheadMs`: by how much the wall clock is ahead. */
export interface TestClock {
  ms: number
  aheadMs?: number
}

export interface Life {
  queue: Queue
  dropped: [reason: string, records: number, points: number][]
  damaged: number
  /** What was set aside, by path. */
  aside: Map<string, Uint8Array>
  clock: TestClock
}

/** @param unsized a file of which the disk does not say how long it is. */
export function lifeOn(disk: LogDisk, bounds: Partial<QueueBounds> = {}, clock: TestClock = { ms: 1000 }, unsized?: string): Life {
  const life: Life = { queue: undefined as never, dropped: [], damaged: 0, aside: new Map(), clock }
  life.queue = new Queue({
    dir: 'queue',
    damagedDir: 'damaged',
    policy: { kind: 'per_batch' },
    bounds: { ...BOUNDS, ...bounds },
    fs: filesOn(disk, life.aside, unsized),
    timers: disk.timers,
    now: () => clock.ms + (clock.aheadMs ?? 0),
    monotonic: () => clock.ms,
    events: {
      dropped: (...given) => void life.dropped.push(given),
      damaged: () => void life.damaged++,
      warning: () => {},
      fsyncs: () => {},
      written: () => {},
    },
  })
  return life
}

export const names = new SeriesNames(limitsOf({}), 1000, 1 << 20)

/** A write of points that carry its number. */
export function append({ queue, clock }: Life, number: number, points: number): Promise<void> {
  const batch = new WriteBatch(names)
  const ref = names.measurement('', 'm')
  const table = batch.table(ref)
  names.begun(batch)
  for (let i = 0; i < points; i++) {
    const row = table.addRow(names.series(ref, ['host', `h${i % 3}`]), i, 0, i)
    table.column('n', 'float64').setF64(row, number)
  }
  names.ended(batch)
  return queue.append(
    batch,
    { points, takenMs: clock.ms + (clock.aheadMs ?? 0), namespace: '', backfill: false, nonFinite: false },
    (series) => names.of(series).key,
  )
}

export async function readAll(
  disk: LogDisk,
  { queue }: Life,
  from: QueuePosition,
  most = Number.POSITIVE_INFINITY,
): Promise<{ numbers: number[]; at: QueuePosition }> {
  const numbers: number[] = []
  let at = from
  for (;;) {
    const { records, next } = await disk.run(queue.read(at, 700))
    for (const { record, next } of records) {
      if (numbers.length >= most) return { numbers, at }
      numbers.push(record.tables[0].columns[0].f64[0])
      at = next
    }
    if (records.length === 0) return { numbers, at: next }
  }
}

export const settle = (disk: LogDisk): void => {
  while (disk.step()) {}
}

/** Files with records of two points each. */
export async function filled(disk: LogDisk, records: number, bounds: Partial<QueueBounds> = {}, clock: TestClock = { ms: 1000 }): Promise<Life> {
  const life = lifeOn(disk, bounds, clock)
  await disk.run(life.queue.open())
  life.queue.attach(READER, undefined)
  for (let number = 0; number < records; number++) {
    await disk.run(append(life, number, 2))
    settle(disk)
    clock.ms += 1000
  }
  return life
}
