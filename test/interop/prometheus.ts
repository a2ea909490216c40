/** A real Prometheus 3 in a temporary folder, with every experimental part of its query language. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { freePort } from '../support/free-port.ts'

const FEATURES =
  'promql-experimental-functions,promql-binop-fill-modifiers,promql-delayed-name-removal,promql-unquoted-utf8-names,metadata-wal-records,exemplar-storage'
const READY_LIMIT_MS = 60_000
const OUTPUT_KEPT = 200_000

function versionOf(program: string): string {
  const { status, stdout, stderr } = spawnSync(program, ['--version'], { encoding: 'utf8' })
  return status === 0 ? (/version (\S+?),? /.exec(stdout + stderr)?.[1] ?? '') : ''
}

/** Why tests that need the program are skipped; false when it is there. */
export const missing = (program: string): string | false => (spawnSync(program, ['--version']).error === undefined ? false : `${program} is not on the path`)

/** Those before 3.16 have another query language. */
export const noPrometheus: string | false = /^3\.(?:1[6-9]|[2-9]\d)\./.test(versionOf('prometheus')) ? false : 'there is no Prometheus 3.16 on the path'

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

/** @param sections of its configuration, after `global`. */
export async function startPrometheus(sections = '', args: string[] = []): Promise<Program> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-interop-prometheus-'))
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const config = `global:\n  scrape_interval: 1s\n  external_labels: {}\nstorage: {tsdb: {out_of_order_time_window: 100d}}\n${sections.replaceAll('{self}', `127.0.0.1:${port}`)}`
  await writeFile(join(folder, 'prometheus.yml'), config)
  const program = await startProgram(
    'prometheus',
    [
      `--config.file=${join(folder, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--web.enable-remote-write-receiver',
      '--storage.tsdb.retention.time=100y',
      `--enable-feature=${FEATURES}`,
      ...args,
    ],
    url,
    '/-/ready',
  )
  return {
    ...program,
    async stop() {
      await program.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
