/** Which files an export leaves, over calls of the file system that fail. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { type FileCalls, realFileCalls } from 'svcdb/lib/files'
import { temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { joinExport } from './join-export.ts'

const instance = await DuckDBInstance.create(':memory:')
const connection = await instance.connect()
t.teardown(() => {
  connection.disconnectSync()
  instance.closeSync()
})

t.test('an export that fails leaves no file, whatever step of it does', async (t) => {
  const folder = temporaryFolder(t)
  const at = (name: string): string => join(folder, name)
  const paths = { path: at('a.parquet'), unfinished: at('a.parquet.0.unfinished'), part: at('a.parquet.1.unfinished') }
  async function* parts(): AsyncGenerator<void> {
    await connection.run(`COPY (SELECT i FROM range(9) t(i)) TO '${paths.part}' (FORMAT PARQUET, WRITE_BLOOM_FILTER false)`)
    yield
  }
  for (let fails = 0; ; fails++) {
    let calls = 0
    const step =
      <A extends unknown[], R>(work: (...args: A) => Promise<R>) =>
      async (...args: A): Promise<R> => {
        if (calls++ === fails) throw Object.assign(new Error('EIO: it failed'), { code: 'EIO' })
        return work(...args)
      }
    const faulty: FileCalls = { ...realFileCalls, open: step(realFileCalls.open), rename: step(realFileCalls.rename) }
    const failed = await joinExport({ ...paths, maxBytes: 0 }, parts(), faulty).then(
      () => undefined,
      (error: Error) => error.message,
    )
    if (failed === undefined) break
    t.same([failed, readdirSync(folder)], ['EIO: it failed', []], `step ${fails}`)
    t.ok(fails < 10)
  }
  t.same(readdirSync(folder), ['a.parquet'])
})
