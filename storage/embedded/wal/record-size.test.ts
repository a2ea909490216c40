/** A record that replay would take for corruption is refused before it is written. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { realFileSystem } from './file-system.ts'
import { MAX_RECORD, Wal } from './wal.ts'

t.test('a record that is too long is refused, and the next one is written', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'svc-wal-'))
  t.teardown(() => rmSync(dir, { recursive: true }))
  const wal = new Wal(dir, { kind: 'per_batch' }, realFileSystem, { fsyncs: () => {}, written: () => {} })
  wal.begin(1)
  const unexpected = (): void => void t.fail('neither applied nor failed')
  const long = (out: { length: number }): void => {
    out.length += MAX_RECORD + 1 // as if written
  }
  t.throws(() => wal.append(long, unexpected, unexpected), { code: 'PAYLOAD_TOO_LARGE' })
  await new Promise<void>((resolve, reject) => wal.append((out) => out.u8(1), resolve, reject))
  t.equal(wal.waiting, 0)
  await wal.close()
})
