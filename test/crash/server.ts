/** The real server as a process of its own, on ports that the system chooses, with its config file and its output kept for messages. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** Characters of output that are kept. */
const KEPT_OUTPUT = 64 * 1024
/** Of these, in a message. */
const LAST_WORDS = 4000

export interface ServerOptions {
  /** Where the config file goes; the data lies in `data` below it. */
  folder: string
  engine: string
  /** Load the SQL plugin; the engine must be able to. */
  sql: boolean
  /** More plugins to load. */
  plugins?: readonly string[]
  /** Load every plugin that points come in by. */
  allProtocols?: boolean
  /** More keys of [database]. */
  database?: Record<string, number | string>
  /** The tree of the code that is run; this one when absent. */
  root?: string
  /** More sections, and more keys of [server]; a list is an array of tables. */
  sections?: Record<string, Section | readonly Section[]>
  /** By how much the wall clock of the process is ahead of that of the machine. */
  aheadMs?: number
}

export type Section = Record<string, number | string | boolean | string[]>

const tableOf = (head: string, section: object): string[] => [head, ...Object.entries(section).map(([key, value]) => `${key} = ${JSON.stringify(value)}`)]

export class ServerProcess {
  private address = ''
  private readonly listeners = { grpc: 0, flight: 0 }
  private readonly child: ChildProcess
  private readonly exited: Promise<number | null>
  private text = ''

  private constructor(child: ChildProcess) {
    this.child = child
    this.exited = once(child, 'exit').then(([code]) => code as number | null)
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (data: Buffer) => {
        this.text = (this.text + data.toString()).slice(-KEPT_OUTPUT)
        if (this.address === '') this.listen()
      })
    }
  }

  /** Once the listeners are open. */
  private listen(): void {
    for (const [, plugin, port] of this.text.matchAll(/ (grpc|flight_sql): listening .*\bport=(\d+)/g))
      this.listeners[plugin === 'grpc' ? 'grpc' : 'flight'] = Number(port)
    this.address = / ready url=(\S+)/.exec(this.text)?.[1] ?? ''
  }

  /** @throws Error before it was ready. */
  get url(): string {
    if (this.address === '') throw new Error(`the server does not listen yet:\n${this.text}`)
    return this.address
  }

  /** Ports of the gRPC listeners, with `allProtocols`; known when it was ready. */
  get ports(): { grpc: number; flight: number } {
    return this.listeners
  }

  /** Starts the process; it is not ready yet. */
  static async spawn({
    folder,
    engine,
    sql,
    plugins = [],
    allProtocols = false,
    database = {},
    root = ROOT,
    sections = {},
    aheadMs = 0,
  }: ServerOptions): Promise<ServerProcess> {
    const more = allProtocols ? [...plugins, 'remote_write', 'otlp', 'grpc', 'flight_sql'] : plugins
    const keys: Record<string, number | string> = { engine, ...(engine === 'embedded' ? { data_dir: join(folder, 'data') } : {}), ...database }
    const { server = {}, ...others } = sections
    const tables = Object.entries({ server: { http_addr: '127.0.0.1:0', sql_max_rows: 10_000_000, ...server }, database: keys, ...others })
    const toml = [
      `plugins = ${JSON.stringify(['native', 'line_protocol', ...(sql ? ['sql'] : []), ...more])}`,
      ...(allProtocols ? ['[grpc]', 'addr = "127.0.0.1:0"', '[flight_sql]', 'addr = "127.0.0.1:0"'] : []),
      ...tables.flatMap(([name, section]) =>
        Array.isArray(section) ? section.flatMap((one: Section) => tableOf(`[[${name}]]`, one)) : tableOf(`[${name}]`, section),
      ),
    ]
    const file = join(folder, 'svc.toml')
    await writeFile(file, `${toml.join('\n')}\n`)
    const clock = aheadMs === 0 ? [] : ['--import', `data:text/javascript,const now = Date.now; Date.now = () => now() + ${aheadMs}`]
    const args = [...clock, join(root, 'kernel/main.ts'), 'serve', '--config', file]
    const child = spawn(process.execPath, args, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] })
    return new ServerProcess(child)
  }

  get pid(): number {
    return this.child.pid as number
  }

  get output(): string {
    return this.text
  }

  get running(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null
  }

  /** @returns milliseconds until /ready answered 200. @throws Error when it exits or takes longer than `limitMs`. */
  async ready(limitMs: number): Promise<number> {
    const started = performance.now()
    while (true) {
      const elapsed = performance.now() - started
      if (!this.running) throw new Error(`the server has exited with ${this.child.exitCode ?? this.child.signalCode}:\n${this.text}`)
      if (elapsed > limitMs) throw new Error(`the server is not ready after ${Math.round(elapsed)} ms:\n${this.text}`)
      if (this.address === '') {
        await setTimeout(5)
        continue
      }
      try {
        const answer = await fetch(`${this.url}/ready`, { signal: AbortSignal.timeout(limitMs) })
        await answer.arrayBuffer()
        if (answer.status === 200) return elapsed
      } catch {
        // not listening yet
      }
      await setTimeout(10)
    }
  }

  /** @returns the exit code, null after SIGKILL. @throws Error when the process outlives `limitMs`. */
  async end(signal: 'SIGKILL' | 'SIGTERM', limitMs = 30_000): Promise<number | null> {
    this.child.kill(signal)
    const code = await Promise.race([this.exited, setTimeout(limitMs, 'late' as const, { ref: false })])
    if (code === 'late') {
      this.child.kill('SIGKILL')
      throw new Error(`the server still runs ${limitMs} ms after ${signal}:\n${this.text}`)
    }
    return code
  }

  async exit(limitMs: number): Promise<number | null | 'running'> {
    return Promise.race([this.exited, setTimeout(limitMs, 'running' as const, { ref: false })])
  }
}

/** What has failed, with what the server said last, and the errors that it has logged before. @param what of the run: its seed, how far it came. */
export function failure(what: string, error: unknown, server: ServerProcess | undefined): Error {
  return new Error(`${what}: ${(error as Error).message}${server === undefined ? '' : lastWords(server.output)}`, { cause: error })
}

/** An answer withholds the cause of a fault: only the log has it, however much came after. */
function lastWords(output: string): string {
  const last = output.slice(-LAST_WORDS)
  const errors = output.slice(0, -LAST_WORDS).match(/^\S+ (?:ERROR|FATAL) .*(?:\n\s.*)*/gm) ?? []
  return `${errors.length === 0 ? '' : `\nwhat the server has logged as errors:\n${errors.join('\n')}`}\nthe server's last words:\n${last}`
}
