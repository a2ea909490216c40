/**
 * The engine processes of an engine thread: started when first needed, one statement at a time each, ended when nobody has needed one for a while. How many statements
 * of all threads may have one, and whose, is decided on the main thread.
 */
import { join } from 'node:path'
import { threadId } from 'node:worker_threads'
import { SvcError } from 'svcdb/lib/errors'
import type { WorkerConfig } from '../threads/messages.ts'
import { EngineProcess } from './process.ts'
import type { ProcessTurns } from './turns.ts'

/** A process takes 0.2 s to start, and some 90 MB while it waits. */
const IDLE_MS = 30_000

export class ProcessPool {
  private readonly config: WorkerConfig
  private readonly turns: ProcessTurns
  private readonly idle: EngineProcess[] = []
  private readonly timers = new Map<EngineProcess, NodeJS.Timeout>()
  private readonly all = new Set<EngineProcess>()
  /** Give the turn back of the statement that has the process. */
  private readonly leave = new WeakMap<EngineProcess, () => void>()
  private next = 0
  private closed = false

  constructor(config: WorkerConfig, turns: ProcessTurns) {
    this.config = config
    this.turns = turns
  }

  /** Of those that wait for a statement. */
  private get mostIdle(): number {
    return this.config.engineProcesses ?? 0
  }

  get enabled(): boolean {
    return this.mostIdle > 0
  }

  /** A process that is ready, to be given back by `release`. Waits its turn. @throws what the signal says. */
  async lease(namespace: string, signal: AbortSignal | undefined): Promise<EngineProcess> {
    const leave = await this.turns.enter(namespace, signal)
    try {
      signal?.throwIfAborted()
      if (this.closed) throw new SvcError('DATABASE_CLOSED', 'cannot run a statement: the engine is closing')
      const process = this.idle.pop() ?? this.start()
      clearTimeout(this.timers.get(process))
      await process.ready
      this.leave.set(process, leave)
      return process
    } catch (error) {
      leave()
      throw error
    }
  }

  /** @param reusable false ends the process: it is, or may be, at work still. */
  release(process: EngineProcess, reusable: boolean): void {
    process.listener = undefined
    process.whenDead(() => {})
    if (reusable && !this.closed && process.death === undefined && this.idle.length < this.mostIdle) {
      process.clear()
      this.idle.push(process)
      this.timers.set(process, setTimeout(() => this.retire(process), IDLE_MS).unref())
    } else process.kill()
    this.leave.get(process)?.()
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
}
