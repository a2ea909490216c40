/** Messages that grow: templates within templates, names that each member has, the same metric again and again. */
import { ProtobufWriter } from 'svcdb/lib/protobuf'
import t from 'tap'
import { grows, processorMsOf } from '../../test/support/growth.ts'
import { encode, host, NOW } from './testing.ts'

const MIB = 1 << 20
const BYTES = 200_000
const MEMORY = 512 * MIB
type Write = (out: ProtobufWriter, bytes: number) => void

function nested(out: ProtobufWriter, field: number, write: () => void): void {
  const mark = out.open(field)
  write()
  out.close(mark)
}
function payload(write: Write, bytes: number): Uint8Array {
  const out = new ProtobufWriter()
  out.int(1, NOW)
  write(out, bytes)
  return out.take()
}
/** A metric of type Int32, or a template. */
function metric(out: ProtobufWriter, field: number, name: string, template?: () => void): void {
  nested(out, field, () => {
    out.string(1, name)
    out.int(4, template === undefined ? 3 : 19)
    if (template === undefined) out.int(10, 1)
    else nested(out, 18, template)
  })
}
const times = (bytes: number, of: number, item: (i: number) => void): void => {
  for (let i = 0; i < Math.floor(bytes / of); i++) item(i)
}
const templates = (levels: number, name: (level: number) => string, inner: () => void, out: ProtobufWriter, field = 2): void => {
  if (levels === 0) inner()
  else metric(out, field, name(levels), () => templates(levels - 1, name, inner, out))
}

const FAMILIES: Record<string, Write> = {
  'a metric again and again': (out, bytes) => times(bytes, 9, () => metric(out, 2, 'm')),
  metrics: (out, bytes) => times(bytes, 14, (i) => metric(out, 2, `m${i}`)),
  'metrics of nothing': (out, bytes) => times(bytes, 2, () => out.blob(2, Uint8Array.of())),
  aliases: (out, bytes) =>
    times(bytes, 10, (i) =>
      nested(out, 2, () => {
        out.int(2, i)
        out.int(10, 1)
      }),
    ),
  'a long name': (out, bytes) => metric(out, 2, 'x'.repeat(bytes)),
  'long names': (out, bytes) => times(bytes, 5000, (i) => metric(out, 2, i + 'x'.repeat(5000))),
  'members of a template with a long name': (out, bytes) => metric(out, 2, 'x'.repeat(bytes / 2), () => times(bytes / 2, 14, (i) => metric(out, 2, `m${i}`))),
  'members of a template with a name': (out, bytes) => metric(out, 2, 'x'.repeat(4000), () => times(bytes, 14, (i) => metric(out, 2, `m${i}`))),
  'templates within templates': (out, bytes) =>
    templates(
      Math.min(500, bytes / 20),
      () => 't',
      () => metric(out, 2, 'm'),
      out,
    ),
  'long templates within templates': (out, bytes) =>
    templates(
      8,
      (level) => String(level).repeat(bytes / 16),
      () => times(bytes / 2, 14, (i) => metric(out, 2, `m${i}`)),
      out,
    ),
  'templates of nothing': (out, bytes) => times(bytes, 10, () => metric(out, 2, 't', () => {})),
  'definitions of templates': (out, bytes) => times(bytes, 12, () => metric(out, 2, 't', () => out.int(5, 1))),
  'fields that nobody knows': (out, bytes) => times(bytes, 3, () => out.int(99, 1)),
}

for (const type of ['NBIRTH', 'DBIRTH', 'NDATA']) {
  t.test(type, async (t) => {
    for (const [name, write] of Object.entries(FAMILIES)) {
      const before = process.memoryUsage.rss()
      await grows(t, name, { bytes: BYTES }, (bytes) => {
        const body = payload(write, bytes)
        const to = host()
        to.take('spBv1.0/g/NBIRTH/n', encode({ timestamp: NOW, seq: 0, metrics: [] }))
        return processorMsOf(() => to.take(`spBv1.0/g/${type}/n${type === 'DBIRTH' ? '/d' : ''}`, body))
      })
      const taken = process.memoryUsage.rss() - before
      t.ok(taken < MEMORY, `${name}: ${Math.round(taken / MIB)} MiB`)
    }
  })
}
