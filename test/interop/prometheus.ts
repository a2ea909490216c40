/** A real Prometheus 3 in a temporary folder, with every experimental part of its query language. */
import { spawnSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../support/free-port.ts'
import { type Program, startProgram } from './service.ts'

const FEATURES =
  'promql-experimental-functions,promql-binop-fill-modifiers,promql-delayed-name-removal,promql-unquoted-utf8-names,metadata-wal-records,exemplar-storage'

function versionOf(program: string): string {
  const { status, stdout, stderr } = spawnSync(program, ['--version'], { encoding: 'utf8' })
  return status === 0 ? (/version (\S+?),? /.exec(stdout + stderr)?.[1] ?? '') : ''
}

/** Those before 3.16 have another query language. */
export const noPrometheus: string | false = /^3\.(?:1[6-9]|[2-9]\d)\./.test(versionOf('prometheus')) ? false : 'there is no Prometheus 3.16 on the path'

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
