/**
 * Mosquitto: both versions of MQTT, each quality of service, passwords, TLS, shared subscriptions; and numbered points while broker, server and the link between them fail.
 * `SVC_INTEROP_POINTS` sets how many (default 20,000), `SVC_SEED` repeats a run.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { connectAsync, type MqttClient } from 'mqtt'
import { seeded } from '../../kernel/lib/random/index.ts'
import { disturb, FaultyLink } from '../support/faulty-link.ts'
import { freePort } from '../support/free-port.ts'
import { type RunningServer, runServer } from '../support/server.ts'
import { until } from '../support/until.ts'
import { noMosquitto, startMosquitto } from './mosquitto.ts'
import { connectors, isUp, sql } from './served.ts'

const POINTS = Number(process.env.SVC_INTEROP_POINTS ?? 20_000)
const SEED = Number(process.env.SVC_SEED ?? Math.floor(Math.random() * 2 ** 31))

let folder = ''
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-mosquitto-'))
})
after(() => rm(folder, { recursive: true, force: true }))

async function end(child: ChildProcess, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
  const closed = once(child, 'close')
  child.kill(signal)
  await closed
}

async function server(name: string, section: string, options: { dataDir?: string; keepData?: boolean } = {}): Promise<RunningServer> {
  const file = join(folder, `${name}.toml`)
  await writeFile(file, `plugins = ["line_protocol", "native", "sql", "mqtt"]\n[database]\nwarm_up_ms = 0\n${section}`)
  return runServer(file, { keepData: options.keepData === true, ...(options.dataDir === undefined ? {} : { env: { SVC_DATA_DIR: options.dataDir } }) })
}

test('each version and quality of service', { skip: noMosquitto }, async () => {
  const port = await freePort()
  const broker = await startMosquitto(folder, 'plain', port, 'allow_anonymous true')
  const sections = ['3.1.1', '5'].flatMap((version) =>
    [0, 1, 2].map(
      (qos) => `[[mqtt.connector]]
name = "v${version}-${qos}"
broker = "127.0.0.1"
port = ${port}
protocol_version = "${version}"
qos = ${qos}
topics = ["$share/${version}-${qos}/site/#"]
format = "line_protocol"
tags_from_topic = ["site/+line"]
reconnect_ms = 200
`,
    ),
  )
  const svc = await server('versions', sections.join(''))
  try {
    await until('six connectors are up', () => isUp(svc.url))
    const client = await connectAsync({ host: '127.0.0.1', port, protocolVersion: 5 })
    for (let i = 0; i < 300; i++) await client.publishAsync(`site/${i % 3}`, `m${i % 5},n=${i} v=${i}`, { qos: (i % 3) as 0 })
    await until('all have all messages', async () => (await connectors(svc.url)).every(({ metrics }) => metrics.points_total === 300))
    await client.endAsync()
    const rows = await sql(
      svc.url,
      `SELECT line, count(*), sum(v) FROM (${[0, 1, 2, 3, 4].map((m) => `SELECT line, n, max(v) AS v FROM m${m} GROUP BY line, n`).join(' UNION ALL ')}) GROUP BY line ORDER BY line`,
    )
    assert.deepEqual(
      rows.map(([line, n]) => [line, Number(n)]),
      [
        ['0', 100],
        ['1', 100],
        ['2', 100],
      ],
    )
  } finally {
    await svc.stop()
    await end(broker)
  }
})

test('passwords and TLS with a certificate', { skip: noMosquitto }, async () => {
  const port = await freePort()
  execFileSync(
    'openssl',
    [
      'req',
      '-x509',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:P-256',
      '-nodes',
      '-days',
      '2',
      '-subj',
      '/CN=localhost',
      '-addext',
      'subjectAltName=DNS:localhost,IP:127.0.0.1',
      '-keyout',
      'key.pem',
      '-out',
      'cert.pem',
    ],
    { cwd: folder, stdio: 'ignore' },
  )
  execFileSync('mosquitto_passwd', ['-b', '-c', join(folder, 'passwords'), 'svc', 'right'])
  execFileSync('chmod', ['644', join(folder, 'key.pem'), join(folder, 'passwords')])
  execFileSync('chmod', ['755', folder])
  const file = (name: string): string => join(folder, name)
  const broker = await startMosquitto(
    folder,
    'tls',
    port,
    `password_file ${file('passwords')}\ncafile ${file('cert.pem')}\ncertfile ${file('cert.pem')}\nkeyfile ${file('key.pem')}\nrequire_certificate true`,
  )
  await writeFile(file('credentials.json'), JSON.stringify({ username: 'svc', password: 'right' }))
  const section = (name: string, more: string): string => `[[mqtt.connector]]
name = "${name}"
broker = "mqtts://localhost"
port = ${port}
topics = ["#"]
format = "line_protocol"
reconnect_ms = 500
${more}
`
  const ca = `ca_cert = "${file('cert.pem')}"\n`
  const own = `client_cert = "${file('cert.pem')}"\nclient_key = "${file('key.pem')}"\n`
  const svc = await server(
    'tls',
    [
      section('right', `${ca}${own}credential_file = "${file('credentials.json')}"`),
      section('wrong-password', `${ca}${own}username = "svc"\npassword = "wrong"`),
      section('no-certificate', `${ca}username = "svc"\npassword = "right"`),
      section('unknown-authority', `${own}username = "svc"\npassword = "right"`),
    ].join(''),
  )
  try {
    await until('one of the four is up', async () => (await connectors(svc.url)).filter(({ status }) => status === 'Idle').length === 1)
    await until('the others have tried', async () => (await connectors(svc.url))[1].status !== 'Stopped' && (await connectors(svc.url))[3].status !== 'Stopped')
    const states = (await connectors(svc.url)).map(({ status }) => status)
    assert.equal(states[0], 'Idle')
    assert.match(JSON.stringify(states[1]), /failed.*[Nn]ot authorized/)
    assert.notEqual(states[2], 'Idle')
    assert.match(JSON.stringify(states[3]), /failed.*(certificate|self.signed)/)
  } finally {
    await svc.stop()
    await end(broker)
  }
})

test('a topic that is no longer configured is left, though the broker has kept the session', { skip: noMosquitto }, async () => {
  for (const version of ['3.1.1', '5']) {
    const port = await freePort()
    const broker = await startMosquitto(folder, `left-${version}`, port, 'allow_anonymous true')
    const client = await connectAsync({ host: '127.0.0.1', port })
    const dataDir = join(folder, `left-${version}`)
    const section = (topics: string[]) =>
      `[mqtt]\nbroker = "127.0.0.1"\nport = ${port}\nprotocol_version = "${version}"\ntopics = ${JSON.stringify(topics)}\nformat = "line_protocol"\n`
    let svc = await server('left', section(['a', 'b/#', '$share/g/c']), { dataDir, keepData: true })
    try {
      await until('it is connected', () => isUp(svc.url))
      // What waits for it at the broker is taken.
      await svc.stop()
      await client.publishAsync('b/1', 'gone,n=waiting v=1', { qos: 1 })
      svc = await server('left', section(['a']), { dataDir, keepData: true })
      await until('what has waited has come', async () => (await connectors(svc.url))[0].metrics.messages_total === 1)
      await sleep(500)
      for (const topic of ['b/1', 'c', 'a']) await client.publishAsync(topic, `gone,n=${topic} v=1`, { qos: 1 })
      await until('the topic that is left to it comes', async () => (await sql(svc.url, "SELECT n FROM gone WHERE n = 'a'")).length === 1)
      assert.deepEqual(await sql(svc.url, 'SELECT n FROM gone ORDER BY n'), [['a'], ['waiting']], version)
    } finally {
      await client.endAsync(true)
      await svc.stop().catch(() => {})
      await end(broker)
    }
  }
})

test('a server that is killed leaves its last will', { skip: noMosquitto }, async () => {
  for (const version of ['3.1.1', '5']) {
    const port = await freePort()
    const broker = await startMosquitto(folder, `will-${version}`, port, 'allow_anonymous true')
    const topic = 'svc/status'
    const client = await connectAsync({ host: '127.0.0.1', port })
    const told: string[] = []
    client.on('message', (_, payload) => void told.push(String(payload)))
    await client.subscribeAsync(topic, { qos: 1 })
    const section = `[mqtt]\nbroker = "127.0.0.1"\nport = ${port}\nprotocol_version = "${version}"\ntopics = ["x"]\nformat = "line_protocol"\nstatus_topic = "${topic}"\n`
    const svc = await server(`will-${version}`, section)
    try {
      await until('it is online', () => told.length === 1)
      process.kill(svc.pid, 'SIGKILL')
      await until('the broker has told its will', () => told.length === 2)
      assert.deepEqual(told, ['online', 'offline'])
      const late = await connectAsync({ host: '127.0.0.1', port })
      const kept = new Promise((resolve) => late.once('message', (_, payload, { retain }) => resolve([String(payload), retain])))
      await late.subscribeAsync(topic)
      assert.deepEqual(await kept, ['offline', true], 'and keeps it')
      await late.endAsync(true)
    } finally {
      await client.endAsync(true)
      await svc.stop().catch(() => {})
      await end(broker)
    }
  }
})

test(`numbered points while the broker, the server and the link fail: SVC_SEED=${SEED}`, { skip: noMosquitto, timeout: 3_600_000 }, async () => {
  const random = seeded(SEED)
  const port = await freePort()
  const lines = `allow_anonymous true\npersistence true\npersistence_location ${folder}/\nmax_queued_messages 0\nmax_inflight_messages 200`
  let broker = await startMosquitto(folder, 'loop', port, lines)
  const link = await FaultyLink.to(port)
  const version = random() < 0.5 ? '3.1.1' : '5'
  const qos = random() < 0.5 ? 1 : 2
  const section = `[mqtt]\nbroker = "127.0.0.1"\nport = ${link.port}\nprotocol_version = "${version}"\ntopics = ["loop"]\nqos = ${qos}\nformat = "line_protocol"\nclient_id = "loop"\nreconnect_ms = 100\nkeep_alive_secs = 5\n`
  let svc = await server('loop', section, { keepData: true })
  const { dataDir } = svc
  let client: MqttClient | undefined
  try {
    await until('the connector is up', () => isUp(svc.url))
    client = await connectAsync({ host: '127.0.0.1', port, reconnectPeriod: 50, clientId: 'sender', clean: false })
    client.on('error', () => {})
    const start = BigInt(Date.now()) * 1_000_000n
    let sent = 0
    const under = new Set<Promise<unknown>>()
    let held: Promise<void> | undefined
    /** What Mosquitto has acknowledged is on its disk when it is killed: what it lost itself would tell nothing of the server. */
    const killBroker = async (): Promise<void> => {
      const { promise, resolve } = Promise.withResolvers<void>()
      held = promise
      await Promise.all(under)
      const file = join(folder, 'mosquitto.db')
      const saved = async (): Promise<number> => (await stat(file, { bigint: true }).catch(() => undefined))?.mtimeNs as never
      const before = await saved()
      broker.kill('SIGUSR1')
      await until('Mosquitto has saved what it has', async () => (await saved()) !== before)
      await end(broker, 'SIGKILL')
      broker = await startMosquitto(folder, 'loop', port, lines)
      held = undefined
      resolve()
    }
    /** The package gives up what was in its store while a connection ends: it is sent again, the same point. */
    const publish = async (line: string): Promise<void> => {
      for (;;) {
        try {
          await (client as MqttClient).publishAsync('loop', line, { qos })
          return
        } catch {
          await sleep(50)
        }
      }
    }
    const sending = (async () => {
      for (; sent < POINTS; sent++) {
        await held
        const one = publish(`m v=${sent} ${start + BigInt(sent)}`)
        under.add(one)
        void one.finally(() => under.delete(one))
        if (under.size >= 50) await Promise.race(under)
      }
      await Promise.all(under)
    })()
    const kills = { svc: 0, broker: 0, brokerEnds: 0, link: {} as Record<string, number> }
    while (sent < POINTS) {
      await sleep(300 + random() * 700)
      const chosen = random()
      if (chosen < 0.5) {
        const fault = await disturb(link, random, 1500, sleep)
        kills.link[fault] = (kills.link[fault] ?? 0) + 1
      } else if (chosen < 0.8) {
        kills.svc++
        process.kill(svc.pid, 'SIGKILL')
        await sleep(random() * 200)
        svc = await server('loop', section, { dataDir, keepData: true })
      } else {
        link.mend()
        if (random() < 0.6) {
          kills.broker++
          await killBroker()
        } else {
          kills.brokerEnds++
          await end(broker)
          broker = await startMosquitto(folder, 'loop', port, lines)
        }
      }
    }
    await sending
    await until('the connector is up again', () => isUp(svc.url))
    // What waits at the broker is still coming.
    for (let before = -1, stored = 0, still = 0; stored < POINTS && still < 60; await sleep(500)) {
      stored = Number((await sql(svc.url, 'SELECT count(*) FROM m'))[0]?.[0] ?? 0)
      still = stored === before ? still + 1 : 0
      before = stored
    }
    const [[count, different, sum, wrong]] = await sql(
      svc.url,
      `SELECT count(*), count(DISTINCT v), sum(v), count(*) FILTER (WHERE epoch_ns(_time) - ${start} <> v) FROM m`,
    )
    console.log(
      `# version ${version}, QoS ${qos}, ${POINTS} points, ${kills.svc} kills of the server, ${kills.broker} kills and ${kills.brokerEnds} restarts of the broker, faults of the link: ${JSON.stringify(kills.link)}`,
    )
    assert.deepEqual([count, different, sum, wrong].map(Number), [POINTS, POINTS, (POINTS * (POINTS - 1)) / 2, 0])
  } finally {
    await client?.endAsync(true)
    await svc.stop()
    await link.close()
    await end(broker)
    await rm(dataDir, { recursive: true, force: true })
  }
})
