/** The real server on a config file of the repository, on a free port and with its data in a temporary folder. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from './tree.ts'

const READY = /ready url=(\S+)/
const READY_LIMIT_MS = 60_000

/** The server's program. */
export const MAIN = join(ROOT, 'kernel/main.ts')

export interface RunOptions {
  /** Of the new process; default the repository. */
  cwd?: string
  /** Where kernel/main.ts is. */
  main?: string
  env?: Record<string, string>
  /** Options of node. */
  nodeArgs?: readonly string[]
  /** Leaves the data where it is when the server stops, until `remove`. */
  keepData?: boolean
  /** The engine keeps nothing on this machine, and is not told where. */
  noData?: boolean
}

export interface RunningServer {
  url: string
  pid: number
  /** Milliseconds from the start of the process to ready. */
  readyMs: number
  output(): string
  dataDir: string
  remove(): Promise<void>
  /** @returns the exit code of a clean stop. */
  stop(): Promise<number | null>
}

/**
 * Arguments for the program `env`, which starts the command with nothing else in its environment, whatever runs the test.
 */
export function bare(env: Record<string, string>, ...command: string[]): string[] {
  return ['-i', `PATH=${process.env.PATH}`, ...Object.entries(env).map(([name, value]) => `${name}=${value}`), ...command]
}

/** @throws Error with the server's output when it does not become ready. */
export async function runServer(config: string, options: RunOptions = {}): Promise<RunningServer> {
  const dataDir = await mkdtemp(join(tmpdir(), 'svc-run-'))
  const began = performance.now()
  const env = {
    SVC_BIND: '127.0.0.1:0',
    SVC_GRPC_BIND: '127.0.0.1:0',
    SVC_FLIGHT_BIND: '127.0.0.1:0',
    ...(options.noData !== true && { SVC_DATA_DIR: dataDir }),
    ...options.env,
  }
  const child: ChildProcess = spawn('env', bare(env, process.execPath, ...(options.nodeArgs ?? []), options.main ?? MAIN, 'serve', '--config', config), {
    cwd: options.cwd ?? ROOT,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  const exited = once(child, 'close').then(([code]) => code as number | null)
  let found: (url: string) => void = () => {}
  const ready = new Promise<string>((resolve) => {
    found = resolve
  })
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk: Buffer) => {
      output += chunk
      const url = READY.exec(output)?.[1]
      if (url !== undefined) found(url)
    })
  }
  const late = new Promise<undefined>((resolve) => setTimeout(resolve, READY_LIMIT_MS, undefined).unref())
  const url = await Promise.race([ready, exited.then(() => undefined), late])
  const readyMs = performance.now() - began
  if (url === undefined) {
    child.kill('SIGKILL')
    await rm(dataDir, { recursive: true, force: true })
    throw new Error(`the server on ${config} did not become ready:\n${output}`)
  }
  return {
    url,
    pid: child.pid as number,
    readyMs,
    output: () => output,
    dataDir,
    remove: () => rm(dataDir, { recursive: true, force: true }),
    async stop() {
      child.kill('SIGTERM')
      const code = await exited
      if (options.keepData !== true) await rm(dataDir, { recursive: true, force: true })
      return code
    },
  }
}
