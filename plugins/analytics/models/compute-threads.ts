/**
 * The threads that fit and forecast: so many at most, one task at a time each. Fitting cannot be interrupted, so a task that is cancelled or takes too long ends with
 * its thread. Callers get a turn, and read their samples only then: no more of them are in memory than are worked on.
 *
 * Invariants: namespaces take turns; whoever waits for an answer comes before what runs by itself; a turn ends once.
 */
import { Worker } from 'node:worker_threads'
import { type ErrorCode, SvcError } from 'svcdb/lib/errors'
import { moduleUrl } from 'svcdb/lib/modules'
import { UnfitError } from '../forecast/model.ts'
import type { Task, TaskResult } from './compute.ts'
import type { FromWorker } from './compute-worker.ts'

/**
 * Node.js gives a thread at its bound 16 MiB more, so that the collection under way can end. What the young generation holds must find room in it, or V8 ends the
 * process: a half of it is copied at most twice, and a half is a third of this.
 */
const YOUNG_MB = 12

export interface ThreadSettings {
  threads: number
  memoryMb: number
  timeoutSecs: number
  /** Turns that may be waited for by requests; of namespaces that want more, each has its share. */
  maxWaiting: number
}

interface Turn {
  namespace: string
  /** Somebody waits for the answer. */
  asked: boolean
  signal: AbortSignal
}

/** Runs a task in the turn's thread. @throws UnfitError, OVERLOADED for too much memory, QUERY_TIMEOUT, the signal's reason. */
export type Run = <K extends Task['kind']>(task: Extract<Task, { kind: K }>) => Promise<Extract<TaskResult, { kind: K }>>

/** A thread that nobody has needed for so long ends. */
const IDLE_MS = 30_000
/** Between two looks at the buffers of a thread at work: V8's own limit is for the heap alone. */
const MEMORY_MS = 200

interface Waiting extends Turn {
  start(): void
  /** It waits no more. */
  end(reason: unknown): void
}

export class ComputeThreads {
  private readonly settings: ThreadSettings
  /** Those that have not ended. */
  private readonly alive = new Set<Worker>()
  private readonly idle: Worker[] = []
  private readonly timers = new Map<Worker, NodeJS.Timeout>()
  private readonly waiting: Waiting[] = []
  private active = 0
  /** When each namespace had its last turn, by number. */
  private readonly lastTurn = new Map<string, number>()
  private turns = 0
  private stopped = false

  constructor(settings: ThreadSettings) {
    this.settings = settings
  }

  get queued(): number {
    return this.waiting.length
  }

  get running(): number {
    return this.active
  }

  /** Threads that there are, idle ones too. */
  get started(): number {
    return this.alive.size
  }

  async turn<T>(turn: Turn, body: (run: Run) => Promise<T>): Promise<T> {
    await this.begin(turn)
    let worker: Worker | undefined
    try {
      return await body(async (task) => {
        turn.signal.throwIfAborted()
        if (worker !== undefined && !this.alive.has(worker)) worker = undefined
        const mine = (worker ??= this.idle.pop() ?? this.start())
        clearTimeout(this.timers.get(mine))
        try {
          return await this.run(mine, task, turn.signal)
        } catch (error) {
          if (!(error instanceof UnfitError) || !this.alive.has(mine)) worker = undefined
          throw error
        }
      })
    } finally {
      this.end(worker)
    }
  }

  async stop(): Promise<void> {
    this.stopped = true
    for (const timer of this.timers.values()) clearTimeout(timer)
    this.timers.clear()
    await Promise.all(this.idle.splice(0).map((worker) => worker.terminate()))
  }

  private begin(turn: Turn): Promise<void> {
    const { threads, maxWaiting } = this.settings
    turn.signal.throwIfAborted()
    if (this.active < threads) {
      this.took(turn)
      return Promise.resolve()
    }
    if (turn.asked && this.waiting.filter(({ asked }) => asked).length >= maxWaiting) {
      const text = `cannot compute now: ${maxWaiting} requests wait for a thread, which is analytics.max_waiting; retry in a few seconds`
      const tooMany = new SvcError('RATE_LIMITED', text, { headers: { 'retry-after': '5' } })
      const last = this.lastOfFullest(turn.namespace)
      if (last === undefined) return Promise.reject(tooMany)
      last.end(tooMany)
    }
    return new Promise((resolve, reject) => {
      const leave = (): void => entry.end(turn.signal.reason)
      const entry: Waiting = {
        ...turn,
        start: () => {
          turn.signal.removeEventListener('abort', leave)
          this.took(turn)
          resolve()
        },
        end: (reason) => {
          turn.signal.removeEventListener('abort', leave)
          this.waiting.splice(this.waiting.indexOf(entry), 1)
          reject(reason)
        },
      }
      turn.signal.addEventListener('abort', leave, { once: true })
      this.waiting.push(entry)
    })
  }

  /** What gives way to one more request of a namespace: the last one of that of which most wait. Undefined where that would still have no more than this one. */
  private lastOfFullest(wanting: string): Waiting | undefined {
    const counts = new Map<string, number>([[wanting, 0]])
    for (const { namespace, asked } of this.waiting) if (asked) counts.set(namespace, (counts.get(namespace) ?? 0) + 1)
    const [fullest, most] = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a))
    return most > (counts.get(wanting) ?? 0) + 1 ? this.waiting.findLast(({ namespace, asked }) => asked && namespace === fullest) : undefined
  }

  private took({ namespace }: Turn): void {
    this.active++
    this.lastTurn.set(namespace, ++this.turns)
    if (this.lastTurn.size > 10_000) this.lastTurn.clear()
  }

  private end(worker: Worker | undefined): void {
    this.active--
    if (worker !== undefined) this.keep(worker)
    if (this.waiting.length === 0) return
    const rank = ({ namespace, asked }: Waiting): number => (asked ? 0 : 2 ** 51) + (this.lastTurn.get(namespace) ?? 0)
    let first = 0
    for (let i = 1; i < this.waiting.length; i++) if (rank(this.waiting[i]) < rank(this.waiting[first])) first = i
    const [next] = this.waiting.splice(first, 1)
    next.start()
  }

  private keep(worker: Worker): void {
    if (!this.alive.has(worker)) return
    if (this.stopped) return void worker.terminate()
    this.idle.push(worker)
    const retire = (): void => {
      this.timers.delete(worker)
      this.forget(worker)
      void worker.terminate()
    }
    this.timers.set(worker, setTimeout(retire, IDLE_MS).unref())
  }

  /** It has ended, or is about to. */
  private forget(worker: Worker): void {
    this.alive.delete(worker)
    const at = this.idle.indexOf(worker)
    if (at >= 0) this.idle.splice(at, 1)
  }

  private start(): Worker {
    const { memoryMb } = this.settings
    const worker = new Worker(moduleUrl('./compute-worker.ts', import.meta.url), {
      name: 'svc-analytics',
      resourceLimits: { maxOldGenerationSizeMb: memoryMb, maxYoungGenerationSizeMb: YOUNG_MB },
    })
    worker.unref()
    this.alive.add(worker)
    // Whoever runs a task in it is told, too.
    worker.on('error', () => this.forget(worker))
    worker.on('exit', () => this.forget(worker))
    return worker
  }

  private run<K extends Task['kind']>(worker: Worker, task: Extract<Task, { kind: K }>, signal: AbortSignal): Promise<Extract<TaskResult, { kind: K }>> {
    const { timeoutSecs, memoryMb } = this.settings
    let finish = (): void => {}
    return new Promise<Extract<TaskResult, { kind: K }>>((resolve, reject) => {
      const end = (error: unknown): void => {
        reject(error)
        this.forget(worker)
        void worker.terminate()
      }
      const abort = (): void => end(signal.reason)
      const late = (): void => {
        const text = `it takes more than ${timeoutSecs} s; choose a shorter range or a simpler model, or raise analytics.training_timeout_secs`
        end(new SvcError('QUERY_TIMEOUT', text))
      }
      const timer = setTimeout(late, timeoutSecs * 1000)
      const answered = (answer: FromWorker): void => {
        if ('result' in answer) resolve(answer.result as Extract<TaskResult, { kind: K }>)
        else if ('unfit' in answer) reject(new UnfitError(answer.unfit))
        else end(new SvcError(answer.code as ErrorCode, answer.text))
      }
      const tooMuch = (): SvcError =>
        new SvcError(
          'OVERLOADED',
          `it takes more than the ${memoryMb} MiB of analytics.compute_memory_mb; choose a shorter range or a simpler model, or raise it`,
        )
      const failed = (error: NodeJS.ErrnoException): void => {
        reject(error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? tooMuch() : new UnfitError(error.message))
      }
      const bound = memoryMb * 2 ** 20
      /** What earlier tasks have left and V8 has not collected yet. */
      let left = 0
      void worker.getHeapStatistics().then(
        ({ external_memory }) => {
          left = Math.min(external_memory, bound)
        },
        () => {},
      )
      const look = async (): Promise<void> => {
        // It may have ended meanwhile.
        const held = await worker.getHeapStatistics().catch(() => undefined)
        if (held !== undefined && held.external_memory > left + bound + bytesOf(task) && looking !== undefined) end(tooMuch())
      }
      let looking: NodeJS.Timeout | undefined = setInterval(() => void look(), MEMORY_MS)
      const exited = (): void => reject(new UnfitError('its thread ended'))
      worker.once('message', answered)
      worker.once('error', failed)
      worker.once('exit', exited)
      signal.addEventListener('abort', abort, { once: true })
      finish = () => {
        clearTimeout(timer)
        clearInterval(looking)
        looking = undefined
        signal.removeEventListener('abort', abort)
        worker.off('message', answered).off('error', failed).off('exit', exited)
      }
      worker.postMessage(task)
    }).finally(() => finish())
  }
}

/** Of the samples that a task brings along. */
function bytesOf(task: Task): number {
  const arrays = task.kind === 'detect' ? [task.times, ...task.columns] : [task.samples.times, task.samples.values]
  return arrays.reduce((sum, { byteLength }) => sum + byteLength, 0)
}
