/** A process that has the log open on a simulated disk, and what became of each record it appended. */

import type { Random } from 'svcdb/lib/random'
import type { LogFileSystem } from '../../common/log/file-system.ts'
import { type FsyncPolicy, Wal, type WalBounds } from '../../common/log/log.ts'
import { walFileSequence } from '../paths.ts'
import { type ChangeRecord, encodeChange } from '../wal/change-record.ts'
import { WAL_FORM } from '../wal/form.ts'
import { recover } from '../wal/recovery.ts'
import { replay } from '../wal/replay.ts'
import type { LogDisk } from './log-disk.ts'

/** `waiting`: neither `applied` nor `failed` was called. */
type AppendState = 'waiting' | 'applied' | Error

export class LogProcess {
  /** By sequence, in the order of the calls. */
  readonly outcomes = new Map<number, AppendState>()
  /** What was acknowledged before a sync that has ended well. */
  readonly durable = new Set<number>()
  /** Files begun. */
  readonly opened: number[] = []
  readonly wal: Wal
  private readonly disk: LogDisk

  /** @param opened called when a new file is there. */
  constructor(disk: LogDisk, policy: FsyncPolicy, opened: (file: number) => void = () => {}, bounds?: WalBounds) {
    this.disk = disk
    const fdatasync: LogFileSystem['fdatasync'] = (fd, done) => {
      const before = this.applied
      disk.fs.fdatasync(fd, (error) => {
        // Behind a sync that failed, one that succeeds means nothing.
        if (error === null && this.wal.poisoned === undefined) for (const sequence of before) this.durable.add(sequence)
        done(error)
      })
    }
    const metrics = {
      fsyncs: () => {},
      written: () => {},
      opened: (file: number) => {
        this.opened.push(file)
        opened(file)
      },
    }
    this.wal = new Wal('wal', WAL_FORM, policy, { ...disk.fs, fdatasync }, metrics, disk.timers, bounds)
  }

  /** Those acknowledged. */
  get applied(): number[] {
    return [...this.outcomes].flatMap(([sequence, outcome]) => (outcome === 'applied' ? [sequence] : []))
  }

  /** Reads the log back and begins the next file. @returns the sequences found. */
  async start(floor = 1): Promise<number[]> {
    const found: number[] = []
    const { lastFile } = await this.disk.run(recover('wal', floor, this.disk.fs, ({ sequence }) => void found.push(sequence)))
    this.wal.begin(Math.max(lastFile, floor - 1) + 1)
    return found
  }

  /** @param words of the payload, four bytes each. */
  append(sequence: number, words = 3): void {
    this.outcomes.set(sequence, 'waiting')
    this.wal.append(
      (out) => encodeChange(out, sequence, deletion(sequence, words)),
      () => this.outcomes.set(sequence, 'applied'),
      (error) => this.outcomes.set(sequence, error),
    )
  }

  /** @returns what `openFile` has thrown; undefined = nothing. */
  rotate(): Promise<unknown> {
    return new Promise((resolve) =>
      this.wal.barrier(() => {
        try {
          this.wal.openFile(this.wal.file + 1)
          resolve(undefined)
        } catch (error) {
          resolve(error)
        }
      }),
    )
  }

  /** Runs everything that waits. */
  settle(): void {
    while (this.disk.step()) {}
  }
}

/** Sequences that the files hold now. */
export function recordsOn(disk: LogDisk): number[] {
  const found: number[] = []
  const first = Math.min(...[...disk.files.keys()].map((name) => walFileSequence(name) ?? 1))
  replay('wal', first, disk.fs, ({ sequence }) => void found.push(sequence))
  return found
}

function deletion(sequence: number, words: number): ChangeRecord {
  // Numbers that need all four bytes and have no zero ones: a sector of zeros is one that was not written.
  const series = Int32Array.from({ length: words }, (_, i) => 0x01010101 + ((Math.imul(i + sequence, 0x9e3779b1) >>> 8) | 0x010101))
  return { kind: 'delete', tombstone: sequence, measurement: 1, start: 0n, end: 1n, series }
}

export function randomPolicy(random: Random): FsyncPolicy {
  const kinds: FsyncPolicy[] = [{ kind: 'per_write' }, { kind: 'per_batch' }, { kind: 'periodic', ms: 1000 }]
  return kinds[Math.floor(random() * kinds.length)]
}
