/** Programs of the path that serve until they are stopped. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout } from 'node:timers/promises'

const READY_LIMIT_MS = 60_000
const OUTPUT_KEPT = 200_000

/** Why tests that need the program are skipped; false when it is there. */
export const missing = (program: string): string | false => (spawnSync(program, ['--version']).error === undefined ? false : `${program} is not on the path`)

export interface Program {
  url: string
  output(): string
  stop(): Promise<void>
}

/** Starts a program that answers at `url + ready` with a 2xx when it is ready. @throws Error with its output. */
export async function startProgram(program: string, args: string[], url: string, ready: string): Promise<Program> {
  const child: ChildProcess = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk) => (output = (output + chunk).slice(-OUTPUT_KEPT)))
  const exited = once(child, 'close')
  const stop = async () => {
    child.kill('SIGTERM')
    await exited
  }
  for (const end = Date.now() + READY_LIMIT_MS; ; ) {
    const answer = await fetch(url + ready).catch(() => undefined)
    await answer?.arrayBuffer()
    if (answer?.ok) return { url, output: () => output, stop }
    if (child.exitCode !== null || Date.now() > end) {
      await stop()
      throw new Error(`${program} did not become ready:\n${output}`)
    }
    await setTimeout(50)
  }
}

/** A metric of the program itself, summed over its labels. @param name a regular expression of the name and its labels. */
export async function ownMetric(url: string, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text()
  return [...text.matchAll(new RegExp(`^${name} (\\S+)$`, 'gm'))].reduce((sum, [, value]) => sum + Number(value), 0)
}
