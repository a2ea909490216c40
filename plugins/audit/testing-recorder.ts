/** A process that records until it is killed, and says what was kept: node testing-recorder.ts PATH FIRST CONCURRENT SYNC_EACH */
import { writeSync } from 'node:fs'
import { makeAuditLog } from './testing.ts'

const [path, first, concurrent, syncEach] = process.argv.slice(2)
const auditLog = makeAuditLog(path, { config: { sync_each: syncEach === 'true' } })
await auditLog.open()
let next = Number(first)
writeSync(1, 'open\n')

async function record(): Promise<never> {
  for (;;) {
    const resource = String(next++)
    // Of various lengths, so that lines end anywhere.
    await auditLog.record({ action: 'admin', resource, decision: 'allow', metadata: { filler: 'x'.repeat(next % 500) } })
    writeSync(1, `${resource}\n`)
  }
}
await Promise.all(Array.from({ length: Number(concurrent) }, record))
