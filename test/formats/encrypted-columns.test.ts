/** The worked example of docs/formats/encrypted-columns.md, decoded from the page alone and by the reader. */
import { createDecipheriv, hkdfSync } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { zstdDecompressSync } from 'node:zlib'
import t from 'tap'
import { hasValue } from '../../storage/embedded/encryption/block.ts'
import { KeyRing } from '../../storage/embedded/encryption/keys.ts'
import { SidecarReader } from '../../storage/embedded/encryption/sidecar.ts'

const page = readFileSync(new URL('../../docs/formats/encrypted-columns.md', import.meta.url), 'utf8')
const fence = (name: string): string => new RegExp(`\`\`\`${name}\\n([^\`]*)\`\`\``).exec(page)?.[1] ?? ''
const file = Buffer.from(fence('hex').replace(/\s/g, ''), 'hex')
const key = Buffer.from(fence('base64').trim(), 'base64')
const rows = JSON.parse(fence('json rows')) as { email: string | null; rate: number | null }[]
const [SEGMENT, CREATED] = [7, 1_700_000_000_000]

t.test('the reader finds the rows of the example', async (t) => {
  const reader = new SidecarReader(
    { name: 'example', size: file.length, read: (at, length) => file.subarray(at, at + length) },
    { segment: SEGMENT, created: CREATED },
  )
  const keys = new KeyRing({ columns: {}, keys: { k1: key } })
  const email = reader.block({ name: 'email', type: 'string', key: 'k1' }, 0, keys)
  const rate = reader.block({ name: 'rate', type: 'float64', key: 'k1' }, 0, keys)
  const found = Array.from({ length: email.rows }, (_, i) => ({
    email: hasValue(email.bits, i) ? Buffer.from(email.values.subarray(email.offsets![i], email.offsets![i + 1])).toString() : null,
    rate: hasValue(rate.bits, i) ? new Float64Array(rate.values.buffer, rate.values.byteOffset)[i] : null,
  }))
  t.same(found, rows)
})

t.test('what the page says is enough to decode it', async (t) => {
  const trailer = file.subarray(-16)
  t.equal(trailer.subarray(8).toString(), 'SVCENC01')
  const at = file.length - 16 - trailer.readUInt32LE(0)
  const index = JSON.parse(file.subarray(at, file.length - 16).toString()) as { rows: number; columns: { name: string; type: string; blocks: number[] }[] }
  t.equal(index.rows, rows.length)
  const derived = Buffer.from(hkdfSync('sha256', key, '', `svc segment ${SEGMENT} ${CREATED}`, 32))
  const open = (from: number, length: number, column: string, type: string): Buffer => {
    const sealed = file.subarray(from, from + length)
    const cipher = createDecipheriv('aes-256-gcm', derived, sealed.subarray(0, 12))
    cipher.setAAD(Buffer.from(`["svc segment",${SEGMENT},${CREATED},"${column}","${type}",0]`))
    cipher.setAuthTag(sealed.subarray(-16))
    return zstdDecompressSync(Buffer.concat([cipher.update(sealed.subarray(12, -16)), cipher.final()]))
  }
  const [email, rate] = index.columns
  const texts = open(8, email.blocks[0], email.name, email.type)
  t.same([texts[0], texts.readUInt32LE(1), texts[5]], [1, 3, 0b101])
  t.same([...texts.subarray(6, 9)], [13, 0, 13], 'the least bytes of the lengths')
  t.equal(texts.subarray(18).toString(), 'a@example.orgb@example.org')
  const numbers = open(8 + email.blocks[0], rate.blocks[0], rate.name, rate.type)
  t.equal(numbers[5], 0b011)
  const second = Buffer.from(Array.from({ length: 8 }, (_, plane) => numbers[6 + plane * 3 + 1]))
  t.equal(second.readDoubleLE(), 20.25)
})
