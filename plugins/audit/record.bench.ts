/** Entries a second into a file on this disk, and through the check: node plugins/audit/record.bench.ts [seconds] */
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { sealBy } from './entry.ts'
import { makeAuditLog } from './testing.ts'
import { verify } from './verify.ts'

const seconds = Number(process.argv[2] ?? 2)
// Not in the temporary folder, which may be memory.
const folder = mkdtempSync(join(import.meta.dirname, '.bench-'))
const seal = sealBy(Buffer.from('the key of the benchmark'))
const by = { principal: 'ci', address: '192.0.2.7', requestId: '3f0e9f6a-6f0e-4a5e-9e5f-0a4d4f0c6c11' }
const show = (count: number, ms: number): string => Math.round(count / (ms / 1000)).toLocaleString('en')

try {
  let path = ''
  for (const sync_each of [true, false]) {
    for (const concurrent of [1, 64]) {
      path = join(folder, `${sync_each}-${concurrent}.jsonl`)
      const auditLog = makeAuditLog(path, { config: { sync_each }, seal })
      await auditLog.open()
      const until = performance.now() + seconds * 1000
      const began = performance.now()
      let entries = 0
      const one = async () => {
        for (; performance.now() < until; entries++)
          await auditLog.record({ action: 'admin', resource: '/api/v1/admin/backup', decision: 'allow', by, metadata: { surface: 'http' } })
      }
      await Promise.all(Array.from({ length: concurrent }, one))
      console.log(
        `sync_each ${String(sync_each).padEnd(5)} ${String(concurrent).padStart(2)} at once: ${show(entries, performance.now() - began).padStart(8)} entries/s`,
      )
      await auditLog.stop()
    }
  }
  const began = performance.now()
  const { entries, broken } = await verify([path], seal, { beginning: 'first' })
  const ms = performance.now() - began
  console.log(`verify ${show(entries, ms)} entries/s, ${(statSync(path).size / 1e6 / (ms / 1000)).toFixed(0)} MB/s${broken === undefined ? '' : ', BROKEN'}`)
} finally {
  rmSync(folder, { recursive: true, force: true })
}
