/**
 * The engine thread with faults, for tests. The file `faults` in the data directory says which: `die` ends the thread at a flush, `die once` does so
 * one time, `sync` lets the sync of a segment file fail, `read` the first read of one that has just been written, `files` lets no thread find a file handle
 * for its modules.
 */
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { parentPort, workerData } from 'node:worker_threads'
import type { ToWorker, WorkerData } from '../threads/messages.ts'

const { dataDir } = workerData as WorkerData
const file = join(dataDir, 'faults')
const fault = (): string => (fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : '')

if (fault() === 'files') throw Object.assign(new Error('EMFILE: too many open files, open main.ts'), { code: 'EMFILE' })

const { open } = fs.promises
const written = new Set<string>()
fs.promises.open = async (path, ...rest) => {
  if (fault() === 'read') {
    if (String(path).endsWith('.parquet.tmp')) written.add(String(path).slice(0, -'.tmp'.length))
    if (written.has(String(path))) throw Object.assign(new Error('EIO: i/o error, open'), { code: 'EIO' })
  }
  const handle = await open(path, ...rest)
  if (String(path).endsWith('.parquet.tmp') && fault() === 'sync') {
    handle.sync = async () => {
      throw Object.assign(new Error('EIO: i/o error, fsync'), { code: 'EIO' })
    }
  }
  return handle
}
syncBuiltinESMExports()

await import('../threads/worker/main.ts')

parentPort?.on('message', ({ kind }: ToWorker) => {
  if (kind !== 'flush' || !fault().startsWith('die')) return
  if (fault() === 'die once') fs.rmSync(file)
  throw new Error('struck dead')
})
