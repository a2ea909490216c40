/** Exemplars, which are kept and looked through on the main thread, as requests that are made to hold the event loop. */
import { compressSync } from 'snappy'
import type { ProtobufWriter } from 'svcdb/lib/protobuf'
import { bytesOf, FORM, type HttpBody, http, message, nested, range, sumOf, V1, V2 } from './loop-body.ts'

const WRITE = '/api/v1/prom/write'
/** Above what a question looks through in one go. */
const SERIES = 600
/** For an expression that goes back over it again and again. */
const REPETITIVE = `${'x'.repeat(40)}!`

/** @param size scales a count. */
export function exemplarBodies(size: (most: number) => number): HttpBody[] {
  const question = (name: string, query: () => string): HttpBody => ({
    ...http(`PromQL exemplars: ${name}`, '/api/v1/query_exemplars', FORM, () => `query=${encodeURIComponent(query())}`),
    prepare: written,
  })
  return [
    http('remote write 1.0: exemplars of many labels', WRITE, V1, () =>
      compressSync(bytesOf(message((out) => series(out, Object.fromEntries(range(500, (i) => [`l${i}`, 'x'.repeat(60)])), size(10_000))))),
    ),
    http('remote write 1.0: an exemplar of many labels', WRITE, V1, () =>
      compressSync(
        bytesOf(
          message((out) => {
            const labels = Buffer.alloc(size(24_000_000), Uint8Array.of(0x0a, 0))
            nested(out, 1, () => nested(out, 3, () => out.append(labels)))
          }),
        ),
      ),
    ),
    http('remote write 1.0: labels of a series with an exemplar', WRITE, V1, () =>
      compressSync(
        bytesOf(
          message((out) => {
            const labels = Buffer.alloc(size(24_000_000), Uint8Array.of(0x0a, 0))
            nested(out, 1, () => {
              out.append(labels)
              out.blob(3, Uint8Array.of())
            })
          }),
        ),
      ),
    ),
    http('remote write 2.0: exemplars of long symbols', WRITE, V2, () =>
      compressSync(
        bytesOf(
          message((out) => {
            for (const text of ['', '__name__', 'x'.repeat(100_000)]) out.string(4, text)
            nested(out, 5, () => {
              out.blob(1, Buffer.alloc(size(10_000), 2))
              nested(out, 4, () => out.blob(1, Buffer.alloc(2, 2)))
            })
          }),
        ),
      ),
    ),
    http('remote write 2.0: an exemplar of long symbols', WRITE, V2, () =>
      compressSync(
        bytesOf(
          message((out) => {
            for (const text of ['', '__name__', 'x'.repeat(100_000)]) out.string(4, text)
            nested(out, 5, () => {
              out.blob(1, Uint8Array.of(1, 1))
              nested(out, 4, () => out.blob(1, Buffer.alloc(size(10_000), 2)))
            })
          }),
        ),
      ),
    ),
    question('selectors', () => sumOf(range(size(20_000), (i) => `n{a="${i}"}`))),
    question('matchers', () => `e{${range(size(20_000), (i) => `l${i}=""`).join(',')}}`),
    question('regex', () => 'e{a=~"(x+x+)+y"}'),
    // Behind the questions, which would look through what it leaves.
    http('remote write 1.0: exemplars of many series', WRITE, V1, () =>
      compressSync(
        bytesOf(
          message((out) => {
            const labels = Object.fromEntries(range(150, (i) => [`l${150 - i}`, 'x']))
            for (let i = 0; i < size(10_000); i++) series(out, { ...labels, i: String(i) }, 1)
          }),
        ),
      ),
    ),
  ]
}

async function written(url: string): Promise<void> {
  const text = message((out) => {
    for (let i = 0; i < SERIES; i++) series(out, { a: REPETITIVE, i: String(i) }, 1)
  })
  const answer = await fetch(`${url}${WRITE}`, { method: 'POST', headers: V1, body: Uint8Array.from(compressSync(bytesOf(text))) })
  if (!answer.ok) throw new Error(await answer.text())
}

/** Exemplars are of now: older ones are not kept. */
function series(out: ProtobufWriter, labels: Record<string, string>, exemplars: number): void {
  const now = Date.now() - exemplars
  const label = (field: number, name: string, value: string) =>
    nested(out, field, () => {
      out.string(1, name)
      out.string(2, value)
    })
  nested(out, 1, () => {
    for (const [name, value] of Object.entries({ __name__: 'e', ...labels })) label(1, name, value)
    for (let i = 0; i < exemplars; i++) {
      nested(out, 3, () => {
        label(1, 'trace_id', String(i))
        out.double(2, 1)
        out.int(3, now + i)
      })
    }
  })
}
