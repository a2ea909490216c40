/**
 * Steps up in order, and down in reverse, on avvio. Each step has a time limit, and a failure names the step. What was begun is
 * undone, finished or not, so `stop` of a step must be safe after its own failed `run`.
 */
import avvio from 'avvio'
import { SvcError } from './lib/errors/index.ts'
import { placeOf } from './lib/modules/index.ts'
import type { Logger } from './log.ts'

type Phase = 'setup' | 'start' | 'ready' | 'drain' | 'stop'

export interface Step {
  phase: 'setup' | 'start' | 'ready'
  /** As messages name it, such as `plugin "sql"`. */
  name: string
  run(): void | Promise<void>
  /** Stops producing; all drains run before the first stop. */
  drain?(): void | Promise<void>
  stop?(): void | Promise<void>
}

interface TimeLimit {
  ms: number
  /** The key to name when it is missed. */
  setting: string
}

export type TimeLimits = Record<Phase, TimeLimit>

/** What a step fails with that has not ended within its limit: it may still be at work. */
export class LateError extends Error {}

const VERBS: Record<Phase, string> = { setup: 'set up', start: 'start', ready: 'make ready', drain: 'drain', stop: 'stop' }

export class Lifecycle {
  private readonly limits: TimeLimits
  private readonly log: Logger
  private readonly begun: Step[] = []
  /** One avvio for each `up`: it takes no more steps once it is booted. */
  private readonly flights: ReturnType<typeof avvio<object>>[] = []
  private goingUp: Promise<void> | undefined
  private goingDown: Promise<Error[]> | undefined
  private abandoned = false

  constructor(limits: TimeLimits, log: Logger) {
    this.limits = limits
    this.log = log
  }

  /** Runs the steps after those of earlier calls. @throws SvcError naming the step; then everything begun has been undone. */
  async up(steps: readonly Step[]): Promise<void> {
    if (this.goingDown !== undefined) throw new Error('cannot run further steps: the lifecycle has ended')
    const flight = avvio<object>({}, { autostart: false, timeout: 0 })
    this.flights.push(flight)
    for (const step of steps) {
      flight.use(async () => {
        if (this.abandoned) return
        this.begun.push(step)
        if (step.stop !== undefined) flight.onClose(async () => this.undo('stop', step))
        await limited(step.phase, step.name, this.limits[step.phase], () => step.run())
      })
    }
    this.goingUp = ready(flight)
    try {
      await this.goingUp
    } catch (error) {
      await this.down()
      throw error
    }
  }

  /** Drains, then stops, in reverse. Safe twice. @returns what failed on the way; it was logged. */
  down(): Promise<Error[]> {
    this.goingDown ??= this.descend()
    return this.goingDown
  }

  /** What is being undone, such as `drain of plugin "sql"`, for whoever does not wait until it is late. */
  undoing: string | undefined
  private readonly failures: Error[] = []

  private async descend(): Promise<Error[]> {
    this.abandoned = true
    await this.goingUp?.catch(() => {}) // `up` reports it
    for (const step of [...this.begun].reverse()) await this.undo('drain', step)
    for (const flight of this.flights.reverse()) await new Promise<void>((resolve) => flight.close(() => resolve()))
    return this.failures
  }

  private async undo(phase: 'drain' | 'stop', step: Step): Promise<void> {
    this.undoing = `${phase} of ${step.name}`
    try {
      await limited(phase, step.name, this.limits[phase], () => step[phase]?.())
    } catch (error) {
      this.failures.push(error as Error)
      this.log.error({ err: error }, (error as Error).message)
    } finally {
      this.undoing = undefined
    }
  }
}

function ready(flight: ReturnType<typeof avvio<object>>): Promise<void> {
  return new Promise((resolve, reject) => {
    flight.ready((error?: Error | null, _context?: unknown, done?: () => void) => {
      done?.()
      error ? reject(error) : resolve()
    })
  })
}

async function limited(phase: Phase, name: string, limit: TimeLimit, run: () => void | Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new LateError(`it took longer than ${limit.ms / 1000} s; find out what it waits for, or raise ${limit.setting}`)), limit.ms)
  })
  try {
    await Promise.race([(async () => run())(), late])
  } catch (error) {
    const cause = error instanceof Error ? error.message : String(error)
    throw new SvcError(error instanceof SvcError ? error.code : 'CONFIG_ERROR', `cannot ${VERBS[phase]} ${name}: ${cause}${placeOf(error)}`, { cause: error })
  } finally {
    clearTimeout(timer)
  }
}
