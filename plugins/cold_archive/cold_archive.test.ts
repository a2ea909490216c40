import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type ObjectStore, Secret } from 'svcdb'
import { boot, type TestNode, temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { eventually } from '../../test/support/until.ts'
import line from '../line_protocol/index.ts'
import sql from '../sql/index.ts'
import { FolderStore } from './folder-store.ts'
import plugin from './index.ts'
import { type Bucket, parseRemote } from './remote.ts'
import { S3Store } from './s3-store.ts'
import { FakeBucket } from './testing-fake-bucket.ts'

const DAY_MS = 86_400_000
const TODAY = Math.floor(Date.now() / DAY_MS) * DAY_MS
const DEFAULTS = { take_over_from: '', cold_after_secs: 1, interval_secs: 1, max_objects_per_run: 8, endpoint: '', region: '', request_timeout_secs: 5 }
const KEY = 'namespace=a%2Fb/measurement=c p\u00fc/date=2024-01-01/1.parquet'

t.test('remote_url', async (t) => {
  const env = { AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'key', AWS_SESSION_TOKEN: 'token' }
  const parse = (url: string, more = {}, from: Record<string, string> = env) => parseRemote({ ...DEFAULTS, remote_url: url, ...more }, from)
  t.equal(parse(''), undefined)
  t.same(parse('/var/cold'), { kind: 'folder', path: '/var/cold' })
  t.same(parse('./cold'), { kind: 'folder', path: './cold' })
  t.same(parse('file:///var/a%20b'), { kind: 'folder', path: '/var/a b' })
  const amazon = {
    kind: 'bucket',
    bucket: 'cold',
    prefix: '',
    url: 'https://cold.s3.us-east-1.amazonaws.com',
    region: 'us-east-1',
    accessKeyId: 'id',
    secretAccessKey: 'key',
    sessionToken: 'token',
  }
  t.same(parse('s3://cold'), amazon)
  t.same(parse('s3://cold//a/b/', { region: 'eu-west-1' }), { ...amazon, prefix: 'a/b', region: 'eu-west-1', url: 'https://cold.s3.eu-west-1.amazonaws.com' })
  t.match(parse('s3://cold', { endpoint: 'http://localhost:9000/' }), { url: 'http://localhost:9000/cold' })
  t.match(parse('s3://cold', {}, { ...env, AWS_ENDPOINT_URL: 'https://a', AWS_ENDPOINT_URL_S3: 'https://b', AWS_DEFAULT_REGION: 'r' }), {
    url: 'https://b/cold',
    region: 'r',
  })
  const secrets = { access_key_id: new Secret('own'), secret_access_key: new Secret('s') }
  t.match(parse('s3://cold', secrets), { accessKeyId: 'own', secretAccessKey: 's', sessionToken: undefined }, 'a token of other credentials is none of these')
  for (const bad of ['gs://cold', 'file://host/x', 's3://', 's3://a b']) t.throws(() => parse(bad), { code: 'CONFIG_ERROR', message: /remote_url/ }, bad)
  for (const bad of ['/etc/svc/s3:/cold/a', 's3:cold', 'S3:/cold'])
    t.throws(() => parse(bad), { code: 'CONFIG_ERROR', message: /no "\/\/" behind its scheme; give a path, file:/ }, bad)
  t.throws(() => parse('s3://cold', { endpoint: 'minio:9000' }), { code: 'CONFIG_ERROR', message: /endpoint/ })
  for (const [url, endpoint] of [
    ['s3://cold', 'http://user:hunter22@minio:9000'],
    ['s3://cold', 'user:hunter22@minio:9000'],
    ['s3://user:hunter22@cold', ''],
    ['https://user:hunter22@cold', ''],
  ]) {
    const message = t.throws(() => parse(url, { endpoint }), { code: 'CONFIG_ERROR' }, `${url} ${endpoint}`) as unknown as Error
    t.notMatch(message.message, 'hunter22')
  }
  t.throws(() => parse('s3://cold', {}, {}), { code: 'CONFIG_ERROR', message: /there are no credentials/ })
})

const bucketOf = (fake: FakeBucket): Bucket => ({
  bucket: 'cold',
  prefix: 'p',
  url: `${fake.url}/cold`,
  region: 'us-east-1',
  accessKeyId: 'id',
  secretAccessKey: 'key',
  sessionToken: undefined,
})

const STORES: Record<string, (t: Test) => Promise<ObjectStore>> = {
  folder: async (t) => new FolderStore(temporaryFolder(t)),
  bucket: async (t) => {
    const fake = await FakeBucket.start()
    t.teardown(() => fake.stop())
    return new S3Store(bucketOf(fake), 5000)
  },
}

for (const [name, make] of Object.entries(STORES)) {
  t.test(`objects in a ${name}`, async (t) => {
    const store = await make(t)
    const dir = temporaryFolder(t)
    const [a, b] = ['a', 'b'].map((file) => join(dir, file))
    writeFileSync(a, Buffer.alloc(3_000_000, 'abc'))
    writeFileSync(b, 'short')
    t.equal(await store.size(KEY), undefined)
    await t.rejects(store.get(KEY, join(dir, 'none')), { code: 'NOT_FOUND' })
    await store.remove(KEY)
    await store.put(KEY, b)
    await store.put(KEY, a)
    t.equal(await store.size(KEY), 3_000_000)
    await store.get(KEY, join(dir, 'back'))
    t.ok(readFileSync(join(dir, 'back')).equals(readFileSync(a)))
    await t.rejects(store.get(KEY, b), 'a file that is there is not replaced')
    await store.remove(KEY)
    t.equal(await store.size(KEY), undefined)
    const created = await Promise.all([a, b, a, b].map((file) => store.create?.(KEY, file)))
    t.same(created.toSorted(), [false, false, false, true], 'one of those that create it')
    const won = [a, b][created.indexOf(true) % 2]
    await store.get(KEY, join(dir, 'created'))
    t.ok(readFileSync(join(dir, 'created')).equals(readFileSync(won)), 'and it has what that one stored')
  })
}

t.test('a folder holds whole objects only, and no empty partitions', async (t) => {
  const root = temporaryFolder(t)
  const store = new FolderStore(root)
  const file = join(temporaryFolder(t), 'f')
  writeFileSync(file, 'x')
  await store.put('a=1/b=2/x.parquet', file)
  await store.put('a=1/c=3/x.parquet', file)
  t.same(readdirSync(root, { recursive: true }).sort(), ['a=1', 'a=1/b=2', 'a=1/b=2/x.parquet', 'a=1/c=3', 'a=1/c=3/x.parquet'])
  writeFileSync(join(root, 'a=1/b=2/x.parquet.unfinished'), 'of a crash')
  await store.remove('a=1/b=2/x.parquet')
  t.same(readdirSync(root, { recursive: true }).sort(), ['a=1', 'a=1/c=3', 'a=1/c=3/x.parquet'])
  await t.rejects(store.put('a=1/c=3/x.parquet/y', file), { code: 'OVERLOADED', message: /cannot write object "a=1\/c=3\/x.parquet\/y" in folder/ })
})

t.test('what a bucket refuses is told, and repeated when it may help', async (t) => {
  const fake = await FakeBucket.start()
  const store = new S3Store(bucketOf(fake), 1000)
  const file = join(temporaryFolder(t), 'f')
  writeFileSync(file, 'x')
  fake.fail = { status: 503, left: 2 }
  await store.put(KEY, file)
  t.equal(fake.fail.left, 0)
  t.same([...fake.objects.keys()], [`cold/p/${KEY}`], 'the name is the one that was meant')
  t.match(fake.lastAuthorization, /^AWS4-HMAC-SHA256 Credential=id\/\d{8}\/us-east-1\/s3\/aws4_request, SignedHeaders=.*host.*, Signature=[0-9a-f]{64}$/)
  fake.fail = { status: 403, left: 1 }
  await t.rejects(store.get(KEY, `${file}2`), { code: 'OVERLOADED', message: /cannot read object .* in bucket "cold\/p": status 403, Refused, told so/ })
  fake.fail = { status: 0, left: 1 }
  await t.rejects(store.size(KEY), { code: 'OVERLOADED', message: /cannot look at object .*(timeout|aborted)/i }, 'no answer at all')
  fake.fail = { status: 0, left: 1 }
  const waiting = store.size(KEY)
  store.close()
  await t.rejects(waiting, { code: 'OVERLOADED', message: /the server is stopping/ })
  await fake.stop()
  await t.rejects(new S3Store(bucketOf(fake), 1000).size(KEY), { code: 'OVERLOADED', message: /ECONNREFUSED/ })
})

t.test('what the credentials of a bucket may not is told with the permission', async (t) => {
  const fake = await FakeBucket.start()
  t.teardown(() => fake.stop())
  const store = new S3Store(bucketOf(fake), 1000)
  const file = join(temporaryFolder(t), 'f')
  writeFileSync(file, 'x')
  fake.fail = { status: 403, left: 4 }
  const listing = /status 403, .*s3:ListBucket on the bucket: give them that and s3:GetObject/
  await t.rejects(store.get(KEY, `${file}2`), { code: 'OVERLOADED', message: listing }, 'it is not taken for missing')
  await t.rejects(store.size(KEY), { code: 'OVERLOADED', message: /status 403; .*s3:ListBucket on the bucket: give them that and s3:GetObject/ })
  await t.rejects(store.put(KEY, file), { code: 'OVERLOADED', message: /status 403, .*s3:PutObject/ })
  await t.rejects(store.remove(KEY), { code: 'OVERLOADED', message: /status 403, .*s3:DeleteObject/ })
})

t.test('a bucket that knows no conditional writes stores all the same', async (t) => {
  const fake = await FakeBucket.start()
  t.teardown(() => fake.stop())
  const store = new S3Store(bucketOf(fake), 5000)
  const file = join(temporaryFolder(t), 'f')
  writeFileSync(file, 'x')
  for (const [status, code] of [
    [501, 'Refused'],
    [400, 'NotImplemented'],
    [400, 'InvalidArgument'],
  ] as const) {
    fake.unconditional = { status, code }
    t.equal(await store.create(KEY, file), true, `${status} ${code}`)
    t.equal(await store.size(KEY), 1)
    await store.remove(KEY)
  }
  fake.unconditional = { status: 400, code: 'RequestTimeout' }
  await t.rejects(store.create(KEY, file), { code: 'OVERLOADED', message: /status 400, RequestTimeout/ }, 'what says nothing of the condition')
  fake.fail = { status: 403, left: 1 }
  await t.rejects(store.create(KEY, file), { code: 'OVERLOADED', message: /status 403, .*s3:PutObject/ })
})

t.test('a removal that a bucket answers with an error of status 200 is not done', async (t) => {
  const fake = await FakeBucket.start()
  t.teardown(() => fake.stop())
  const store = new S3Store(bucketOf(fake), 1000)
  fake.fail = { status: 200, left: 1 }
  await t.rejects(store.remove(KEY), { code: 'OVERLOADED', message: /cannot remove object .* in bucket "cold\/p": status 200, Refused, told so/ })
  await store.remove(KEY)
})

async function started(config: Record<string, unknown>, log?: (line: string) => void): Promise<TestNode> {
  const sections = {
    server: { shutdown_timeout_secs: 300 },
    database: { ooo_shard_tolerance: 100_000 },
    cold_archive: { ...config, interval_secs: 1, cold_after_secs: 10 * 86_400 },
  }
  const node = await boot({ plugins: [plugin, line, sql], storage: 'embedded', config: sections, ...(log === undefined ? {} : { log }) })
  for (const day of [30, 20, 0]) {
    const lines = Array.from({ length: 50 }, (_, i) => `cpu,host=h${i % 3} usage=${i / 4},n=${i}i ${TODAY - day * DAY_MS + i * 1000}`)
    const written = await node.inject({ method: 'POST', url: '/write?precision=ms', payload: lines.join('\n'), headers: { 'content-type': 'text/plain' } })
    if (written.statusCode !== 204) throw new Error(written.body)
    await node.storage.flush()
  }
  return node
}

async function asked(node: TestNode, query = 'SELECT host, count(*) AS n, sum(usage) AS u FROM cpu GROUP BY host ORDER BY host') {
  const answer = await node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query } })
  return { status: answer.statusCode, ...answer.json() }
}

async function metric(node: TestNode, name: string): Promise<number> {
  const text = (await node.inject('/metrics')).body.split('\n').find((one) => one.startsWith(`svc_cold_archive_${name}`))
  return Number(text?.split(' ')[1] ?? 0)
}

t.test('old days go to a folder, and SQL does not notice', async (t) => {
  const place = join(temporaryFolder(t), 'not there yet')
  const node = await started({ remote_url: pathToFileURL(place).href })
  t.teardown(() => node.stop())
  const before = await asked(node)
  await eventually(async () => (await metric(node, 'objects_total')) === 2)
  t.equal(await metric(node, 'rows_total'), 100)
  t.ok((await metric(node, 'runs_total{result="done"}')) >= 1)
  t.same(await asked(node), before)
  const days = [30, 20].map((day) => new Date(TODAY - day * DAY_MS).toISOString().slice(0, 10))
  t.match(
    readdirSync(place, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.parquet'))
      .sort(),
    days.map((day) => new RegExp(`^namespace=.*/measurement=cpu/date=${day}/`)),
  )
})

t.test('old days go to a bucket; while it is away the rest is served', async (t) => {
  const fake = await FakeBucket.start()
  const secrets = { access_key_id: 'id', secret_access_key: 'very secret' }
  const lines: string[] = []
  const node = await started({ remote_url: 's3://cold/here', endpoint: fake.url, ...secrets }, (line) => lines.push(line))
  t.teardown(() => node.stop())
  const before = await asked(node)
  await eventually(async () => (await metric(node, 'objects_total')) === 2)
  t.same(await asked(node), before)
  t.same([...fake.objects.keys()].map((key) => key.replace(/=.*/, '')).sort(), ['cold/here/namespace', 'cold/here/namespace', 'cold/here/svc-owner.json'])
  await fake.stop()
  t.same(await asked(node), before, 'from the copies')
  t.notMatch(lines.join(), /very secret/)
})

t.test('a place that cannot be reached is told at each run, and nothing is lost', async (t) => {
  const lines: string[] = []
  const secrets = { access_key_id: 'id', secret_access_key: 'key' }
  const node = await started({ remote_url: 's3://cold', endpoint: 'http://127.0.0.1:9', ...secrets }, (line) => lines.push(line))
  t.teardown(() => node.stop())
  await eventually(async () => (await metric(node, 'runs_total{result="failed"}')) >= 1)
  t.match(lines.join('\n'), /cannot archive what is due; it stays local until a later run/)
  t.match(await asked(node), {
    status: 200,
    rows: [
      ['h0', 51],
      ['h1', 51],
      ['h2', 48],
    ],
  })
})

t.test('a node stops at once while a bucket does not answer', async (t) => {
  const fake = await FakeBucket.start()
  t.teardown(() => fake.stop())
  fake.fail = { status: 0, left: 1000 }
  const node = await started({ remote_url: 's3://cold', endpoint: fake.url, access_key_id: 'id', secret_access_key: 'key' })
  await eventually(async () => fake.fail.left < 1000)
  t.same(await node.stop(), [])
})

t.test('a folder that cannot be made is named with its key', async (t) => {
  const remote_url = join(import.meta.filename, 'folder')
  await t.rejects(started({ remote_url }), /cannot make the folder of cold_archive\.remote_url: ENOTDIR.*folder'; name one that the server can make/)
})

t.test('without a place it says so', async (t) => {
  const lines: string[] = []
  const node = await boot({ plugins: [plugin], storage: 'embedded', log: (line) => lines.push(line) })
  await node.stop()
  t.match(lines.join('\n'), /cold_archive.remote_url is not set: nothing is archived/)
})
