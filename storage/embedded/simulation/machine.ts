/** What one process meets of the machine: whether it still runs, the scheduler, the disk, and the faults that are to happen to it. */
import { type Disk, SystemError } from './disk.ts'
import type { Random } from './random.ts'
import { Crash, type Scheduler } from './scheduler.ts'

/** How likely each call is to fail; 0 = never. */
export interface FaultRates {
  /** Reads, and looking at files. */
  read: number
  write: number
  sync: number
  /** Making, renaming and removing names, and opening files. */
  name: number
  /** Short writes and interrupted ones. */
  short: number
  /** Writes to the log alone. */
  log: number
  /** Commits of the store. */
  commit: number
  /** Commits that find no space, and leave the store as good as before. */
  full: number
  /** An engine thread dies with a task, or fails it. */
  thread: number
  /** The object store of the archive. */
  object: number
}

export const NO_FAULTS: FaultRates = { read: 0, write: 0, sync: 0, name: 0, short: 0, log: 0, commit: 0, full: 0, thread: 0, object: 0 }

const CODES = {
  read: ['EIO', 'EMFILE', 'ENFILE', 'ENOMEM'],
  write: ['ENOSPC', 'ENOSPC', 'EIO', 'EDQUOT'],
  log: ['ENOSPC', 'EIO', 'EDQUOT'],
  sync: ['EIO', 'EIO', 'ENOSPC'],
  name: ['EMFILE', 'ENFILE', 'ENOMEM', 'ENOSPC', 'EIO'],
} as const

/** Operations whose names begin so take up to so much longer. */
export interface Slowness {
  call: string
  ms: number
}

export class Machine {
  alive = true
  rates: FaultRates = NO_FAULTS
  slow: Slowness | undefined
  /** Called when a fault happens. */
  struck: () => void = () => {}
  /** Faults that have happened. */
  faults = 0
  /** Those after which only a restart can tell what is on disk, or which ended a thread: writes may be refused until then. */
  grave = 0
  readonly scheduler: Scheduler
  readonly disk: Disk
  readonly random: Random
  /** Effects of operations under way: each happens or does not when the process ends. */
  private readonly underWay = new Set<() => void>()

  constructor(scheduler: Scheduler, disk: Disk, random: Random) {
    this.scheduler = scheduler
    this.disk = disk
    this.random = random
  }

  /** Whether a fault of the kind happens now. */
  strikes(kind: keyof FaultRates): boolean {
    const rate = this.rates[kind]
    if (rate === 0 || !this.random.chance(rate)) return false
    this.faults++
    this.struck()
    return true
  }

  /** @throws an error of the kind, if one is to happen. */
  fault(kind: keyof typeof CODES, call: string, path: string): void {
    if (!this.strikes(kind)) return
    const code = this.random.pick(CODES[kind])
    if (kind === 'sync' || call === 'ftruncate' || (code === 'EIO' && path.endsWith('data.mdb'))) this.grave++
    this.scheduler.trace?.(`  fault ${code} ${call} ${path}`)
    throw new SystemError(code, call, path)
  }

  /** A synchronous call. */
  now<T>(name: string, effect: () => T): T {
    if (!this.alive) throw new Crash('the process has ended')
    this.scheduler.step(name)
    return effect()
  }

  /** An asynchronous operation. @param effect runs when it happens, @param done takes its result a moment later; neither when the process ends first. */
  later<T>(name: string, effect: () => T, done: (error: Error | null, result: T | undefined) => void): void {
    if (!this.alive) return
    const happen = (): void => {
      effect()
    }
    this.underWay.add(happen)
    const { slow } = this
    const extra = slow !== undefined && name.startsWith(slow.call) ? this.random.next() * slow.ms : 0
    this.scheduler.soon(
      name,
      () => {
        this.underWay.delete(happen)
        if (!this.alive) return
        let result: T | undefined
        try {
          result = effect()
        } catch (error) {
          if (error instanceof Crash) throw error
          return done(error as Error, undefined)
        }
        done(null, result)
      },
      extra,
    )
  }

  promise<T>(name: string, effect: () => T): Promise<T> {
    return new Promise((resolve, reject) => this.later(name, effect, (error, result) => (error === null ? resolve(result as T) : reject(error))))
  }

  /** The process ends. */
  end(): void {
    if (!this.alive) return
    this.alive = false
    this.rates = NO_FAULTS
    for (const happen of this.underWay) {
      if (!this.random.chance(0.5)) continue
      try {
        happen()
      } catch {
        // It would have failed.
      }
    }
    this.underWay.clear()
  }
}
