/** The OpenTelemetry SDKs of Python, JavaScript, Java and Go: every instrument, both temporalities, protobuf and JSON. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { type Listeners, startListeners } from './listeners.ts'
import { cached, client, type Ended, execute, hasCompiler, lacking, lackingPython, PYTHON } from './program.ts'
import { vector } from './promql/compare.ts'

interface Sdk {
  skip: string | false
  encodings: string[]
  run(listeners: Listeners, encoding: string, temporality: string): Promise<Ended>
}

const JARS = 'otlp-java-jars'
const installed = existsSync(join(import.meta.dirname, 'node_modules/@opentelemetry/sdk-metrics'))
const SDKS: Record<string, Sdk> = {
  Python: {
    skip: lackingPython('opentelemetry'),
    encodings: ['proto', 'grpc'],
    run: ({ url, grpc }, encoding, ...how) => execute(PYTHON, [client('otlp_sdk.py'), encoding === 'grpc' ? grpc : url, encoding, ...how]),
  },
  JavaScript: {
    skip: installed ? false : 'the packages of OpenTelemetry are not installed',
    encodings: ['proto', 'json'],
    run: ({ url }, ...how) => execute(process.execPath, [client('otlp-sdk.mjs'), url, ...how]),
  },
  Java: {
    skip: lacking('OpenTelemetry SDK for Java', JARS) || (hasCompiler() ? false : 'there is no JDK: no java with a compiler is on the path'),
    encodings: ['proto', 'grpc'],
    run: ({ url, grpc }, encoding, ...how) =>
      execute('java', ['-Xmx256m', '-cp', `${cached(JARS)}/*`, client('OtlpSdk.java'), encoding === 'grpc' ? grpc : url, encoding, ...how]),
  },
  Go: {
    skip: lacking('OpenTelemetry SDK for Go', 'bin/otlp-sdk-go'),
    encodings: ['proto', 'grpc'],
    run: ({ url, grpc }, encoding, ...how) => execute(cached('bin/otlp-sdk-go'), [encoding === 'grpc' ? grpc : url, encoding, ...how]),
  },
}

async function sql({ url }: Listeners, query: string): Promise<unknown[][]> {
  const answer = await fetch(`${url}/api/v1/svc/sql`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ query }) })
  const { rows, error } = (await answer.json()) as { rows: unknown[][]; error?: string }
  assert.equal(answer.status, 200, error)
  return rows
}

const histogram = async ({ url }: Listeners, query: string): Promise<(number | undefined)[]> => (await vector(url, query)).map(({ value }) => value)

async function stored(listeners: Listeners, temporality: string): Promise<void> {
  const cumulative = temporality === 'cumulative'
  assert.deepEqual(await sql(listeners, `SELECT "service.name", "service.instance.id", value FROM "app.requests" WHERE route = '/ü' ORDER BY _time`), [
    ['shop', 'i-1', 3],
    ['shop', 'i-1', cumulative ? 5 : 2],
  ])
  assert.deepEqual((await sql(listeners, `SELECT value FROM "app.requests" WHERE route = '/b' ORDER BY _time`))[0], [4])
  assert.deepEqual(await sql(listeners, 'SELECT value FROM "app.queue" ORDER BY _time'), [[5], [3]], 'up and down is always cumulative')
  assert.deepEqual(await sql(listeners, 'SELECT gauge FROM "app.temperature" ORDER BY _time'), [[21.5], [19.25]])
  assert.deepEqual(await sql(listeners, 'SELECT value, core, busy FROM "app.cpu" ORDER BY _time'), [
    [1.5, '7', 'true'],
    [cumulative ? 3 : 1.5, '7', 'true'],
  ])
  assert.match(String((await sql(listeners, 'SELECT flags FROM "app.cpu"'))[0][0]), /^\["a", ?"b"\]$/)
  const latest = (name: string): string => `last_over_time({__name__="${name}"}[1h])`
  assert.deepEqual(await histogram(listeners, `histogram_count(${latest('app.latency')})`), [cumulative ? 4 : 1])
  assert.deepEqual(await histogram(listeners, `round(histogram_sum(${latest('app.latency')}), 0.001)`), [cumulative ? 4 : 0.2])
  assert.deepEqual(
    await histogram(listeners, `histogram_fraction(0, 0.5, ${latest('app.latency')})`),
    [cumulative ? 0.5 : 1],
    'boundaries are as they were declared',
  )
  assert.deepEqual(await histogram(listeners, `histogram_count(${latest('app.size')})`), [cumulative ? 5 : 1])
  assert.deepEqual(await histogram(listeners, `histogram_sum(${latest('app.size')})`), [cumulative ? 15 : 8])
  for (const name of ['app.latency', 'app.size']) {
    assert.deepEqual(await histogram(listeners, `count_over_time({__name__="${name}"}[1h])`), [2], 'each export is a sample')
  }
}

for (const [name, sdk] of Object.entries(SDKS)) {
  for (const encoding of sdk.encodings) {
    for (const temporality of ['cumulative', 'delta']) {
      test(`OpenTelemetry SDK for ${name}, ${encoding}, ${temporality}`, { skip: sdk.skip }, async (t) => {
        const listeners = await startListeners(['otlp', 'grpc'])
        t.after(() => listeners.stop())
        const { code, stderr } = await sdk.run(listeners, encoding, temporality)
        assert.deepEqual({ code, stderr }, { code: 0, stderr: '' })
        await stored(listeners, temporality)
      })
    }
  }

  for (const encoding of sdk.encodings) {
    test(`OpenTelemetry SDK for ${name}, ${encoding}: a full disk and a full memtable are tried again`, { skip: sdk.skip }, async (t) => {
      const listeners = await startListeners(['otlp', 'grpc'])
      t.after(() => listeners.stop())
      for (const [index, code] of ['STORAGE_FULL', 'BACKPRESSURE'].entries()) {
        await listeners.fail(code, 1)
        const ended = await sdk.run(listeners, encoding, 'cumulative')
        assert.equal(ended.code, 0, ended.stderr)
        assert.equal(await listeners.failed(), 1)
        assert.equal((await sql(listeners, `SELECT 1 FROM "app.requests" WHERE route = '/b'`)).length, 2 * (index + 1))
      }
    })
  }

  test(`OpenTelemetry SDK for ${name}: of a partial write the good points stay, and it is told`, { skip: sdk.skip }, async (t) => {
    const listeners = await startListeners(['otlp', 'grpc'])
    t.after(() => listeners.stop())
    await listeners.write(['app.queue value="text"'])
    const { code, stderr } = await sdk.run(listeners, 'proto', 'cumulative')
    assert.equal(code, 0, stderr)
    assert.deepEqual(await sql(listeners, 'SELECT gauge FROM "app.temperature" ORDER BY _time'), [[21.5], [19.25]])
    if (name === 'JavaScript' || name === 'Go') assert.match(stderr, /partial success/i)
  })
}
