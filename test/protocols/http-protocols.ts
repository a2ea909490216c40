/** The protocols of the HTTP listener, each with its own format. */
import type { LightMyRequestResponse } from 'fastify'
import { compressSync } from 'snappy'
import { ProtobufWriter } from 'svcdb/lib/protobuf'
import type { TestNode } from 'svcdb/testkit'
import type { Answer, Protocol, Sample } from './protocol.ts'

const NANOS = 1_000_000n
const nanosOf = ({ ms }: Sample): string => String(BigInt(ms) * NANOS)

export const native: Protocol = {
  name: 'native',
  async write(node, measurement, samples, backfill) {
    const points = samples.map(
      (sample) => `{"measurement":"${measurement}","tags":{"host":"${sample.host}"},"fields":{"value":${sample.value}},"timestamp":${nanosOf(sample)}}`,
    )
    return answerOf(await post(node, '/api/v1/write', backfill, `[${points.join(',')}]`, { 'content-type': 'application/json' }))
  },
}

export const lineProtocol: Protocol = {
  name: 'line_protocol',
  async write(node, measurement, samples, backfill) {
    const lines = samples.map((sample) => `${measurement},host=${sample.host} value=${sample.value} ${nanosOf(sample)}`)
    return answerOf(await post(node, '/api/v2/write', backfill, lines.join('\n'), { 'content-type': 'text/plain' }))
  },
}

export const remoteWrite = (version: 1 | 2): Protocol => ({
  name: `remote_write ${version}.0`,
  async write(node, measurement, samples, backfill) {
    const type = version === 1 ? 'application/x-protobuf' : 'application/x-protobuf;proto=io.prometheus.write.v2.Request'
    const message = version === 1 ? requestV1(measurement, samples) : requestV2(measurement, samples)
    return answerOf(
      await post(node, '/api/v1/prom/write', backfill, compressSync(Buffer.from(message)), { 'content-type': type, 'content-encoding': 'snappy' }),
    )
  },
})

export const otlp: Protocol = {
  name: 'otlp',
  async write(node, measurement, samples, backfill) {
    const dataPoints = samples.map((sample) => ({
      attributes: [{ key: 'host', value: { stringValue: sample.host } }],
      timeUnixNano: nanosOf(sample),
      asDouble: sample.value,
    }))
    const metric = { name: measurement, sum: { aggregationTemporality: 2, isMonotonic: false, dataPoints } }
    const body = JSON.stringify({ resourceMetrics: [{ scopeMetrics: [{ metrics: [metric] }] }] })
    const answer = await post(node, '/v1/metrics', backfill, body, { 'content-type': 'application/json' })
    if (answer.statusCode === 204) return { ok: true, code: undefined, rejected: 0, text: '' }
    const { partialSuccess, message } = answer.json() as { partialSuccess?: { rejectedDataPoints: number | string; errorMessage: string }; message?: string }
    return {
      ok: false,
      code: undefined,
      rejected: partialSuccess && Number(partialSuccess.rejectedDataPoints),
      text: partialSuccess?.errorMessage ?? String(message),
    }
  },
}

function post(
  node: TestNode,
  path: string,
  backfill: boolean | undefined,
  payload: string | Buffer,
  headers: Record<string, string>,
): Promise<LightMyRequestResponse> {
  return node.inject({ method: 'POST', url: backfill === true ? `${path}?backfill=true` : path, payload, headers })
}

function answerOf(answer: LightMyRequestResponse): Answer {
  if (answer.statusCode === 204) return { ok: true, code: undefined, rejected: 0, text: '' }
  const { code, error, rejected } = answer.json() as { code: string; error: string; rejected?: number }
  return { ok: false, code, rejected, text: error }
}

function requestV1(measurement: string, samples: readonly Sample[]): Uint8Array {
  const writer = new ProtobufWriter()
  for (const { host, ms, value } of samples) {
    const series = writer.open(1)
    for (const [name, text] of [
      ['__name__', measurement],
      ['host', host],
    ]) {
      const label = writer.open(1)
      writer.string(1, name)
      writer.string(2, text)
      writer.close(label)
    }
    sample(writer, ms, value)
    writer.close(series)
  }
  return writer.take()
}

function requestV2(measurement: string, samples: readonly Sample[]): Uint8Array {
  const writer = new ProtobufWriter()
  for (const symbol of ['', '__name__', measurement, 'host', ...samples.map(({ host }) => host)]) writer.string(4, symbol)
  for (const [i, { ms, value }] of samples.entries()) {
    const series = writer.open(5)
    for (const ref of [1, 2, 3, 4 + i]) writer.int(1, ref)
    sample(writer, ms, value)
    writer.close(series)
  }
  return writer.take()
}

function sample(writer: ProtobufWriter, ms: number, value: number): void {
  const mark = writer.open(2)
  writer.double(1, value)
  writer.int(2, ms)
  writer.close(mark)
}
