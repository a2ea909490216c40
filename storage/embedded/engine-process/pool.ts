/** The engine processes of an engine thread: started when first needed, one statement at a time each, ended when nobody has needed one for a while. */
import { join } from 'node:path'
import { threadId } from 'node:worker_threads'
import { SvcError } from 'svcdb/lib/errors'
import type { WorkerConfig } from '../threads/messages.ts'
import { EngineProcess } from './process.ts'

/** A process takes 0.2 s to start, and some 90 MB while it waits. */
const IDLE_MS = 30_000

interface Waiting {
  namespace: string
  start(): void
}

export class ProcessPool {
  private readonly config: WorkerConfig
  private readonly most: number
  private readonly idle: EngineProcess[] = []
  private readonly timers = new Map<EngineProcess, NodeJS.Timeout>()
  private readonly all = new Set<EngineProcess>()
  /** Namespaces of the statements that have a process, or are starting one. */
  private readonly busy: string[] = []
  private readonly waiting = new Set<Waiting>()
  private next = 0
  private closed = false

  constructor(config: WorkerConfig) {
    this.config = config
    this.most = config.engineProcesses ?? 0
  }

  get enabled(): boolean {
    return this.most > 0
  }

  /** A process that is ready, to be given back by `release`. Waits its turn. @throws what the signal says. */
  async lease(namespace: string, signal: AbortSignal | undefined): Promise<EngineProcess> {
    if (!this.hasRoom(namespace)) await this.turn(namespace, signal)
    else this.busy.push(namespace)
    try {
      signal?.throwIfAborted()
      if (this.closed) throw new SvcError('DATABASE_CLOSED', 'cannot run a statement: the engine is closing')
      const process = this.idle.pop() ?? this.start()
      clearTimeout(this.timers.get(process))
      await process.ready
      return process
    } catch (error) {
      this.left(namespace)
      throw error
    }
  }

  /** @param reusable false ends the process: it is, or may be, at work still. */
  release(process: EngineProcess, namespace: string, reusable: boolean): void {
    process.listener = undefined
    process.whenDead(() => {})
    if (reusable && !this.closed && process.death === undefined) {
      process.clear()
      this.idle.push(process)
      this.timers.set(process, setTimeout(() => this.retire(process), IDLE_MS).unref())
    } else process.kill()
    this.left(namespace)
  }

  close(): void {
    this.closed = true
    for (const process of this.all) process.kill()
  }

  private start(): EngineProcess {
    const scratch = join(this.config.tempDir, `process-${threadId}-${this.next++}`)
    const process = new EngineProcess(this.config, scratch, (ended) => {
      this.all.delete(ended)
      this.forget(ended)
    })
    this.all.add(process)
    return process
  }

  private retire(process: EngineProcess): void {
    if (!this.idle.includes(process)) return
    this.forget(process)
    process.kill()
  }

  private forget(process: EngineProcess): void {
    clearTimeout(this.timers.get(process))
    this.timers.delete(process)
    const at = this.idle.indexOf(process)
    if (at >= 0) this.idle.splice(at, 1)
  }

  /** Where namespaces are kept apart, one of them leaves a process to the others. */
  private hasRoom(namespace: string): boolean {
    if (this.busy.length >= this.most) return false
    return namespace === '' || this.most === 1 || this.busy.filter((each) => each === namespace).length < this.most - 1
  }

  private turn(namespace: string, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.waiting.delete(entry)
        reject(signal?.reason)
      }
      const entry: Waiting = {
        namespace,
        start: () => {
          signal?.removeEventListener('abort', leave)
          resolve()
        },
      }
      this.waiting.add(entry)
      signal?.addEventListener('abort', leave, { once: true })
      if (signal?.aborted) leave()
    })
  }

  private left(namespace: string): void {
    this.busy.splice(this.busy.indexOf(namespace), 1)
    for (const entry of this.waiting) {
      if (!this.hasRoom(entry.namespace)) continue
      this.waiting.delete(entry)
      this.busy.push(entry.namespace)
      entry.start()
    }
  }
}
