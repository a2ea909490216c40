/**
 * An engine process as its engine thread sees it. Its memory is limited twice: by the system, which refuses it more data segment, and by a thread of its
 * own that looks at what is resident. Either way it dies, and with it one statement; `kill` ends it for any other reason.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { SvcError } from 'svcdb/lib/errors'
import { moduleUrl } from 'svcdb/lib/modules'
import { isNative, nativeSpec } from '../threads/function-spec.ts'
import type { WorkerConfig } from '../threads/messages.ts'
import { stepBack } from '../threads/worker/niceness.ts'
import type { FromProcess, ProcessSettings, ToProcess } from './messages.ts'

const MAIN = fileURLToPath(moduleUrl('./main.ts', import.meta.url))
/** Data segment of a process that is ready: 722 MB with two threads of DuckDB (measured), most of it reserved by V8 for code and never used. */
const BASE_DATA_BYTES = 896 << 20
const THREAD_DATA_BYTES = 24 << 20
/** Of a statement's memory; the rest is for what DuckDB does not count. With more, sorts that spill are ended for their memory (measured). */
const BUFFER_SHARE = 0.5
/** Of DuckDB's threads and of JavaScript, whatever the statement. */
const OWN_BYTES = 32 << 20
/** So much further behind than engine threads: about a third of their share of a processor. */
const FURTHER_BACK = 5
/** What it needs of the environment, which may hold secrets. */
const ENVIRONMENT = ['PATH', 'LD_LIBRARY_PATH', 'TMPDIR', 'NODE_COMPILE_CACHE', 'NODE_DISABLE_COMPILE_CACHE', 'SystemRoot']
/** How a process ends that the system gives no more memory, or that was ended for its memory. */
const MEMORY_SIGNALS: ReadonlySet<NodeJS.Signals> = new Set(['SIGKILL', 'SIGABRT', 'SIGTRAP', 'SIGILL', 'SIGBUS'])

export class EngineProcess {
  readonly scratch: string
  /** Resolves when it can run statements. @throws SvcError when it never could. */
  readonly ready: Promise<void>
  /** Of the statement that has the process. */
  listener: ((message: FromProcess) => void) | undefined
  /** Set when it has ended. */
  death: SvcError | undefined
  private isReady = false
  private readonly child: ChildProcess
  private readonly memoryLimitBytes: number
  private onDeath: (error: SvcError) => void = () => {}

  /** @param scratch of its own; it is made here, and removed when the process has ended. */
  constructor(config: WorkerConfig, scratch: string, ended: (process: EngineProcess) => void) {
    this.scratch = scratch
    this.memoryLimitBytes = config.memoryLimitBytes
    mkdirSync(scratch, { recursive: true, mode: 0o700 })
    const settings: ProcessSettings = {
      scratch,
      threads: config.duckdbThreads,
      bufferBytes: Math.floor(config.memoryLimitBytes * BUFFER_SHARE),
      growthBytes: config.memoryLimitBytes + OWN_BYTES,
      scratchBytes: config.maxScratchBytes ?? Number.MAX_SAFE_INTEGER,
      noSpill: config.noSpill === true,
      functions: (config.sqlFunctions ?? []).filter(isNative).map(nativeSpec),
    }
    const dataBytes = BASE_DATA_BYTES + config.duckdbThreads * THREAD_DATA_BYTES + config.memoryLimitBytes
    this.child = start([MAIN, JSON.stringify(settings)], Math.ceil(dataBytes / 1024))
    // Threads that it starts later have its priority as well. On Linux the calling thread has stepped back already.
    const by = process.platform === 'linux' ? FURTHER_BACK : config.niceness + FURTHER_BACK
    if (config.niceness > 0 && this.child.pid !== undefined) stepBack(by, this.child.pid)
    let started = (): void => {}
    this.ready = new Promise((resolve, reject) => {
      started = resolve
      this.onDeath = reject
    })
    this.ready.catch(() => {}) // whoever waits for it learns of it
    this.child.on('message', (message: FromProcess) => {
      if (message.kind !== 'ready') return this.listener?.(message)
      this.isReady = true
      started()
    })
    this.child.on('error', (error) => this.died(new SvcError('DATABASE_ERROR', `cannot start an engine process: ${error.message}`, { cause: error }), ended))
    this.child.on('exit', (code, signal) => this.died(this.endOf(code, signal), ended))
    // It does not keep the thread alive.
    this.child.unref()
    this.child.channel?.unref()
  }

  send(message: ToProcess): void {
    if (this.death !== undefined) throw this.death
    // A process that has just died is noticed by its exit.
    this.child.send(message, () => {})
  }

  /** Resolves when the system has taken the message: whoever sends much waits for it. */
  sent(message: ToProcess): Promise<void> {
    if (this.death !== undefined) throw this.death
    return new Promise((resolve) => this.child.send(message, () => resolve()))
  }

  /** Calls `listener` when the process ends, or has ended. */
  whenDead(listener: (error: SvcError) => void): void {
    if (this.death !== undefined) listener(this.death)
    else this.onDeath = listener
  }

  kill(): void {
    this.child.kill('SIGKILL')
  }

  /** Removes the files that were handed over. */
  clear(): void {
    for (const name of readdirSync(this.scratch)) if (name.endsWith('.parquet')) rmSync(join(this.scratch, name), { force: true })
  }

  private died(error: SvcError, ended: (process: EngineProcess) => void): void {
    if (this.death !== undefined) return
    this.death = error
    rmSync(this.scratch, { recursive: true, force: true })
    ended(this)
    this.onDeath(error)
  }

  private endOf(code: number | null, signal: NodeJS.Signals | null): SvcError {
    if (this.isReady && signal !== null && MEMORY_SIGNALS.has(signal)) {
      const limit = Math.floor(this.memoryLimitBytes / (1 << 20))
      return new SvcError(
        'SQL_ERROR',
        `cannot run this query: it needs more memory than the ${limit} MiB that one may use; read fewer rows at once, make smaller values, or raise [database] per_query_memory_limit`,
      )
    }
    return new SvcError('DATABASE_ERROR', `the engine process ended by itself (${signal ?? `code ${code}`})${this.isReady ? '' : ' before it was ready'}`)
  }
}

/** By a shell, which can limit what it becomes; where there is none, without that limit. */
function start(args: readonly string[], dataKib: number): ChildProcess {
  const env = Object.fromEntries(ENVIRONMENT.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])))
  const limited = process.platform !== 'win32'
  const [command, ...before] = limited
    ? ['/bin/sh', '-c', 'ulimit -d "$1" 2>/dev/null; shift; exec "$@"', 'sh', String(dataKib), process.execPath]
    : [process.execPath]
  return spawn(command, [...before, ...args], { env, stdio: ['ignore', 'ignore', 'ignore', 'ipc'], serialization: 'advanced' })
}
