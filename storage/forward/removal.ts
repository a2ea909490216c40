/**
 * Removes files of the queue, in the order in which they are given, and only so many in one turn of the event loop: each takes a sync of the directory, and after
 * a restart with smaller bounds there may be thousands.
 */
import { join } from 'node:path'
import { type FileSystem, syncDirectory } from '../common/log/file-system.ts'
import type { Timers } from '../common/timers.ts'
import { queueFileName } from './paths.ts'

const IN_A_TURN = 8

interface QueueFolder {
  dir: string
  fs: FileSystem
  timers: Timers
  events: { warning(error: unknown, text: string): void }
}

export class Removal {
  private readonly folder: QueueFolder
  private waiting: number[] = []
  private inTurn = 0
  private idle: (() => void)[] = []

  constructor(folder: QueueFolder) {
    this.folder = folder
  }

  /** At once, unless many have gone in this turn. */
  add(file: number): void {
    if (this.inTurn === 0) this.folder.timers.setImmediate(() => this.nextTurn())
    if (this.inTurn >= IN_A_TURN) this.waiting.push(file)
    else {
      this.inTurn++
      this.remove(file)
    }
  }

  /** Resolves when all are gone. */
  async done(): Promise<void> {
    if (this.waiting.length > 0) await new Promise<void>((resolve) => this.idle.push(resolve))
  }

  /** @returns whether it is gone. */
  remove(file: number): boolean {
    const { dir, fs, events } = this.folder
    try {
      fs.unlinkSync(join(dir, queueFileName(file)))
      // One after the other: a power cut must not bring an older one back and leave a hole behind it, which would look like a loss.
      syncDirectory(dir, fs)
      return true
    } catch (error) {
      events.warning(error, `cannot remove ${queueFileName(file)} of the queue`)
      return false
    }
  }

  private nextTurn(): void {
    this.inTurn = 0
    const next = this.waiting
    this.waiting = next.splice(IN_A_TURN)
    for (const file of next) this.add(file)
    if (this.waiting.length === 0) for (const resolve of this.idle.splice(0)) resolve()
  }
}
