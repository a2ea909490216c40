import { readFileSync } from 'node:fs'
import { copyFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { credentials, type ServiceError } from '@grpc/grpc-js'
import { type ClientCertificate, definePlugin, type Identity } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import t from 'tap'
import { Descriptors } from './descriptors.ts'
import { type Message, point, type Subscription, start, TestClient } from './testing.ts'

const errorOf = (answer: Promise<unknown>): Promise<ServiceError> =>
  answer.then(
    () => Promise.reject(new Error('it was answered')),
    (error) => error,
  )
const fixture = (name: string): string => new URL(`../../test/support/certificates/${name}`, import.meta.url).pathname
const NOW = BigInt(Date.now()) * 1_000_000n

t.test('each method asks for its own action, and health for none', async (t) => {
  const asked: string[] = []
  let certificate: ClientCertificate | undefined
  const guard = definePlugin({
    id: 'guard',
    summary: 'Knows readers and writers',
    stability: 'stable',
    setup(svc) {
      svc.auth.authenticator(async (given): Promise<Identity | SvcError | undefined> => {
        certificate = given.certificate
        const token = given.header('authorization')
        if (token === 'Bearer slow down') return new SvcError('RATE_LIMITED', 'Too Many Requests')
        return token === undefined ? undefined : { principal: token, method: 'token', claims: {}, namespaces: [], admin: false }
      })
      svc.auth.authorizer(({ context, action, resource }) => {
        asked.push(`${action} ${resource.split('/')[2]}`)
        return context.principal === 'Bearer all' ? undefined : new SvcError('FORBIDDEN', `cannot call "${resource}" as a reader`)
      })
    },
  })
  const { node, port } = await start({ plugins: [guard], section: { reflection: true } })
  const client = new TestClient(port)
  t.teardown(async () => {
    client.close()
    await node.stop()
  })
  const unary = ['Write', 'GetSchema', 'ListMeasurements', 'Delete', 'DropMeasurement', 'ServerInfo', 'ExecuteSql']
  const ended = (subscription: Subscription) => subscription.ended.then((status) => Promise.reject(status))
  const calls = (options: object): Promise<unknown>[] => {
    const { stream, answer } = client.streamWrite(options)
    stream.on('error', () => {})
    return [
      ...unary.map((method) => client.call(method, {}, options)),
      client.query({ measurement: 'm' }, options),
      ended(client.subscribe({}, options)),
      answer,
    ]
  }
  for (const answer of calls({})) t.match(await errorOf(answer), { code: 16, details: /no credentials/ })
  for (const answer of calls({ metadata: { authorization: 'Bearer some' } })) t.match(await errorOf(answer), { code: 7, details: /as a reader/ })
  t.equal(certificate, undefined)
  t.same(asked.sort(), [
    'delete Delete',
    'delete DropMeasurement',
    'read ExecuteSql',
    'read GetSchema',
    'read ListMeasurements',
    'read Query',
    'read ServerInfo',
    'read Subscribe',
    'write StreamWrite',
    'write Write',
  ])
  t.match(await client.call('ServerInfo', {}, { metadata: { authorization: 'Bearer all' } }), { measurement_count: '0' })
  const limited = await errorOf(client.call('ServerInfo', {}, { metadata: { authorization: 'Bearer slow down' } }))
  t.equal(limited.code, 8)
  t.match(String(limited.metadata.get('grpc-status-details-bin')[0]), 'RetryInfo')
  for (const service of ['', 'svc.Service']) t.same(await client.call('Health/Check', { service }), { status: 'SERVING' })
  t.match(await errorOf(client.call('Health/Check', { service: 'other' })), { code: 5 })
  t.same(await client.call('Health/List', {}), {
    statuses: [
      { key: '', value: { status: 'SERVING' } },
      { key: 'svc.Service', value: { status: 'SERVING' } },
    ],
  })
})

t.test('health follows the node, and its watchers do not hold up a stop', async (t) => {
  let reason: string | undefined
  const moody = definePlugin({ id: 'moody', summary: 'Is not always ready', stability: 'stable', setup: (svc) => svc.readiness(() => reason) })
  const { node, port } = await start({ plugins: [moody] })
  const client = new TestClient(port)
  t.teardown(() => client.close())
  const seen: string[] = []
  const watch = client.health.Watch({ service: 'svc.Service' })
  const ended = new Promise<ServiceError>((resolve) => watch.on('error', resolve))
  const told = (status: string): Promise<void> =>
    new Promise((resolve) => {
      const look = () => (seen.at(-1) === status ? resolve() : watch.once('data', look))
      look()
    })
  watch.on('data', (message: Message) => seen.push(message.status))
  const unknown = client.health.Watch({ service: 'other' })
  const [first] = await new Promise<Message[]>((resolve) => unknown.once('data', (message: Message) => resolve([message])))
  t.same(first, { status: 'SERVICE_UNKNOWN' })
  unknown.on('error', () => {})
  unknown.cancel()
  await told('SERVING')
  reason = 'the disk sleeps'
  await told('NOT_SERVING')
  t.same(await client.call('Health/Check', {}), { status: 'NOT_SERVING' })
  reason = undefined
  await told('SERVING')
  t.same(await node.stop(), [])
  t.match(await ended, { code: 14 })
  t.same(seen, ['SERVING', 'NOT_SERVING', 'SERVING', 'NOT_SERVING'])
})

t.test('reflection, of both names', async (t) => {
  const { node, port } = await start({ section: { reflection: true } })
  const client = new TestClient(port)
  t.teardown(async () => {
    client.close()
    await node.stop()
  })
  const pass = (bytes: Buffer) => bytes
  const ask = async (version: string, ...requests: number[][]): Promise<Buffer[]> => {
    const path = `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`
    const stream = client.service.makeBidiStreamRequest(path, pass, pass)
    for (const request of requests) stream.write(Buffer.from(request))
    stream.end()
    return stream.toArray()
  }
  const text = (field: number, value: string): number[] => [field * 8 + 2, value.length, ...Buffer.from(value)]
  const descriptors = await Descriptors.load(['./svc.proto', './health.proto'])
  for (const version of ['v1', 'v1alpha']) {
    const [list, symbol, method, nested, file, itself, none, extension, nothing] = await ask(
      version,
      text(7, ''),
      text(4, 'svc.Service'),
      text(4, 'svc.Service.Write'),
      text(4, 'grpc.health.v1.HealthCheckResponse.ServingStatus'),
      text(3, descriptors.fileOf('svc.Point')?.name as string),
      text(4, `grpc.reflection.${version}.ServerReflection`),
      text(4, 'svc.None'),
      text(6, 'svc.Point'),
      [],
    )
    for (const name of ['svc.Service', 'grpc.health.v1.Health', `grpc.reflection.${version}.ServerReflection`]) t.ok(list.includes(name), name)
    const descriptor = descriptors.fileOf('svc.Service')?.descriptor as Buffer
    for (const answer of [symbol, method, file]) t.ok(answer.includes(descriptor))
    t.ok(nested.includes(descriptors.fileOf('grpc.health.v1.Health')?.descriptor as Buffer))
    t.ok(itself.includes('ServerReflectionInfo'))
    for (const answer of [none, extension, nothing]) t.match(String(answer), /there is no|there are no|asks for nothing/)
  }
  const closed = await start()
  const other = new TestClient(closed.port)
  t.teardown(async () => {
    other.close()
    await closed.node.stop()
  })
  const stream = other.service.makeBidiStreamRequest('/grpc.reflection.v1.ServerReflection/ServerReflectionInfo', pass, pass)
  t.match(await errorOf(stream.toArray()), { code: 12 })
})

t.test('TLS with reload, and clients with certificates', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'svc-grpc-tls-'))
  const files = { cert: join(folder, 'cert.pem'), key: join(folder, 'cert.key') }
  const use = async (name: string) => {
    await copyFile(fixture(`${name}.pem`), files.cert)
    await copyFile(fixture(`${name}.key`), files.key)
  }
  await use('first')
  let seen: ClientCertificate | undefined
  const guard = definePlugin({
    id: 'guard',
    summary: 'Looks at certificates',
    stability: 'stable',
    setup: (svc) =>
      svc.auth.authenticator(({ certificate, protocol }) => {
        if (protocol === 'grpc') seen = certificate
        return { principal: 'a', method: 'mtls', claims: {}, namespaces: [], admin: false }
      }),
  })
  const lines: string[] = []
  const tls = { ...files, client_ca: fixture('ca.pem'), reload_interval_secs: 0.02 }
  const { node, port } = await start({ plugins: [guard], config: { tls }, log: (line) => lines.push(line) })
  const clients: TestClient[] = []
  t.teardown(async () => {
    for (const client of clients) client.close()
    await node.stop()
    await rm(folder, { recursive: true })
  })
  const connected = (...parts: (Buffer | null)[]): TestClient => {
    const client = new TestClient(port, credentials.createSsl(...(parts as [Buffer])))
    clients.push(client)
    return client
  }
  const [ca, key, cert] = ['ca.pem', 'client.key', 'client.pem'].map((name) => readFileSync(fixture(name)))
  t.match(await connected(ca, key, cert).call('Write', { points: [point('m', NOW, {}, { v: 1 })] }), { written: '1' })
  t.ok(seen !== undefined && cert.toString().includes(Buffer.from(seen.der).toString('base64').slice(0, 40)), 'the certificate is shown to authenticators')
  t.match(await errorOf(connected(ca).call('ServerInfo', {}, { deadline: 2000 })), { code: 14 }, 'a client without a certificate')
  const plain = new TestClient(port)
  clients.push(plain)
  t.match(await errorOf(plain.call('ServerInfo', {}, { deadline: 2000 })), { code: 14 }, 'a client without TLS')
  await use('second')
  while (lines.filter((line) => line.includes('TLS certificate reloaded') && line.includes('"grpc"')).length === 0)
    await new Promise((resolve) => setTimeout(resolve, 10))
  t.match(await connected(ca, key, cert).call('ServerInfo', {}), { measurement_count: '1' })
})
