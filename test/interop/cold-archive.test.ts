/** Old data in an S3 server that checks signatures (moto), and in a folder that pyarrow reads by its partitions. */
import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { freePort } from '../support/free-port.ts'
import { type RunningServer, runServer } from '../support/server.ts'
import { until } from '../support/until.ts'
import { cached, lackingPython, PYTHON } from './program.ts'

const DAY_MS = 86_400_000
const TODAY = Math.floor(Date.now() / DAY_MS) * DAY_MS
const ROWS = 5000
const DAYS = [30, 20, 0]
const SUMS = 'SELECT host, count(*) AS n, sum(a) AS a, min(b) AS b, count(DISTINCT CAST(_time AS DATE)) AS days FROM cpu GROUP BY host ORDER BY host'

interface Moto {
  url: string
  id: string
  secret: string
  process: ChildProcess
}

/** With an empty bucket "cold"; from then on every request has to be signed. */
async function startMoto(): Promise<Moto> {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const env = { ...process.env, INITIAL_NO_AUTH_ACTION_COUNT: '4' }
  const moto = spawn(cached('python/bin/moto_server'), ['-H', '127.0.0.1', '-p', String(port)], { env, stdio: 'ignore' })
  const authorization = 'AWS4-HMAC-SHA256 Credential=x/20240101/us-east-1/iam/aws4_request, SignedHeaders=host, Signature=0'
  const iam = async (params: Record<string, string>): Promise<string> => {
    const answer = await fetch(url, { method: 'POST', headers: { authorization }, body: new URLSearchParams({ Version: '2010-05-08', ...params }) })
    assert.equal(answer.status, 200)
    return answer.text()
  }
  await until('moto has started', () =>
    fetch(`${url}/moto-api/`).then(
      ({ ok }) => ok,
      () => false,
    ),
  )
  await iam({ Action: 'CreateUser', UserName: 'svc' })
  const policy = { Version: '2012-10-17', Statement: [{ Effect: 'Allow', Action: 's3:*', Resource: '*' }] }
  await iam({ Action: 'PutUserPolicy', UserName: 'svc', PolicyName: 'all', PolicyDocument: JSON.stringify(policy) })
  const key = await iam({ Action: 'CreateAccessKey', UserName: 'svc' })
  const [id, secret] = ['AccessKeyId', 'SecretAccessKey'].map((name) => new RegExp(`<${name}>(.*?)<`).exec(key)?.[1] ?? '')
  assert.equal((await fetch(`${url}/cold`, { method: 'PUT' })).status, 200)
  return { url, id, secret, process: moto }
}

async function sql(server: RunningServer, query: string): Promise<{ status: number; body: Record<string, unknown> }> {
  const answer = await fetch(`${server.url}/api/v1/svc/sql`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ query }),
  })
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> }
}

/** Days of rows, each large enough to be flushed by itself; resolves when the old ones are archived. */
async function fill(server: RunningServer): Promise<unknown> {
  for (const day of DAYS) {
    const lines = Array.from({ length: ROWS }, (_, i) => `cpu,host=h${i % 7},date=x a=${i / 4},b=${i}i,s="text ${i}" ${TODAY - day * DAY_MS + i}`)
    const written = await fetch(`${server.url}/write?precision=ms`, { method: 'POST', body: lines.join('\n') })
    assert.equal(written.status, 204, await written.text())
  }
  const { body } = await sql(server, SUMS)
  const metrics = async (): Promise<string> => (await fetch(`${server.url}/metrics`)).text()
  await until('the old days are archived', async () => /^svc_cold_archive_rows_total 10000$/m.test(await metrics())).catch((error) => {
    throw new Error(`${error.message}\n${server.output()}`)
  })
  return body
}

const config = (remote: string): string => `plugins = ["line_protocol", "sql", "cold_archive"]
[database]
memtable_flush_threshold = 65536
ooo_shard_tolerance = 100000
[cold_archive]
remote_url = ${JSON.stringify(remote)}
cold_after_secs = 864000
interval_secs = 1
`

test('old data goes to an S3 server and comes back, also after a restart; without it the rest is served', { skip: lackingPython('moto') }, async () => {
  const moto = await startMoto()
  const folder = await mkdtemp(join(tmpdir(), 'svc-interop-'))
  try {
    await writeFile(join(folder, 'svc.toml'), config('s3://cold/some where/ü'))
    const env = { AWS_ACCESS_KEY_ID: moto.id, AWS_SECRET_ACCESS_KEY: moto.secret, AWS_ENDPOINT_URL: moto.url, SVC_DATA_DIR: join(folder, 'data') }
    const first = await runServer(join(folder, 'svc.toml'), { env })
    const before = await fill(first)
    assert.deepEqual((await sql(first, SUMS)).body, before)
    assert.equal(await first.stop(), 0)

    const second = await runServer(join(folder, 'svc.toml'), { env })
    assert.deepEqual((await sql(second, SUMS)).body, before)
    assert.equal(await second.stop(), 0)

    const third = await runServer(join(folder, 'svc.toml'), { env })
    moto.process.kill('SIGKILL')
    await once(moto.process, 'exit')
    const refused = await sql(third, SUMS)
    assert.equal(refused.status, 503)
    assert.match(String(refused.body.error), /cannot read archived segment .* from bucket "cold\/some where\/ü"/)
    const recent = await sql(third, `SELECT count(*) AS n FROM cpu WHERE _time >= '${new Date(TODAY).toISOString()}'`)
    assert.deepEqual([recent.status, recent.body.rows], [200, [[ROWS]]])
    assert.equal(await third.stop(), 0)
  } finally {
    moto.process.kill('SIGKILL')
    await rm(folder, { recursive: true, force: true })
  }
})

const SCRIPT = `
import json, sys
import pyarrow.dataset as ds
table = ds.dataset(sys.argv[1], format='parquet', partitioning='hive', exclude_invalid_files=True).to_table()
print(json.dumps({
  'schema': sorted(f'{f.name} {f.type}' for f in table.schema),
  'dates': sorted(set(map(str, table['date'].to_pylist()))),
  'rows': table.num_rows,
  'a': sum(table['a'].to_pylist()),
  'b': sum(table['b'].to_pylist()),
}))
`

test('pyarrow reads a folder by its partitions', { skip: lackingPython('pyarrow') }, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'svc-interop-'))
  try {
    await writeFile(join(folder, 'svc.toml'), config(join(folder, 'cold')))
    const server = await runServer(join(folder, 'svc.toml'))
    await fill(server)
    assert.equal(await server.stop(), 0)
    const read = JSON.parse(execFileSync(PYTHON, ['-c', SCRIPT, join(folder, 'cold')], { encoding: 'utf8' }))
    assert.deepEqual(
      read.schema.filter((column: string) => !/^(namespace|measurement|date) /.test(column)),
      ['_series int32', '_time timestamp[ns]', 'a double', 'b int64', 'date_tag string', 'host string', 's string'],
    )
    const sum = (ROWS * (ROWS - 1)) / 2
    assert.deepEqual(
      { ...read, schema: undefined },
      {
        schema: undefined,
        dates: [30, 20].map((day) => new Date(TODAY - day * DAY_MS).toISOString().slice(0, 10)),
        rows: 2 * ROWS,
        a: sum / 2,
        b: sum * 2,
      },
    )
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})
