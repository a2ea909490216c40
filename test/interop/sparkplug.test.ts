/** Mosquitto between an edge node whose payloads are those of the npm package sparkplug-payload and the server: births, data, a kill of the server, the will of the edge node. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { connectAsync } from 'mqtt'
import { encode, type SentMetric } from '../../plugins/sparkplug_b/testing.ts'
import { freePort } from '../support/free-port.ts'
import { type RunningServer, runServer } from '../support/server.ts'
import { until } from '../support/until.ts'
import { noMosquitto, startMosquitto } from './mosquitto.ts'
import { isUp, sql } from './served.ts'

test('an edge node with a device, through Mosquitto', { skip: noMosquitto, timeout: 180_000 }, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'svc-sparkplug-'))
  const port = await freePort()
  const broker = await startMosquitto(folder, 'mosquitto', port, 'allow_anonymous true')
  await writeFile(
    join(folder, 'svc.toml'),
    `plugins = ["sql", "mqtt", "sparkplug_b"]\n[database]\nwarm_up_ms = 0\n[mqtt]\nbroker = "127.0.0.1"\nport = ${port}\ntopics = ["spBv1.0/#"]\nformat = "sparkplug_b"\nclient_id = "svc"\nreconnect_ms = 200\n`,
  )
  let svc: RunningServer | undefined
  try {
    const started = await runServer(join(folder, 'svc.toml'), { keepData: true })
    svc = started
    await until('the connector is up', () => isUp(started.url))
    const bdSeq = { name: 'bdSeq', type: 'UInt64', value: 4 }
    const edge = await connectAsync({
      host: '127.0.0.1',
      port,
      reconnectPeriod: 0,
      will: { topic: 'spBv1.0/Basel/NDEATH/line-4', payload: Buffer.from(encode({ timestamp: Date.now(), metrics: [bdSeq] })), qos: 1, retain: false },
    })
    let seq = 0
    let births = 0
    const send = (type: string, metrics: SentMetric[], device = ''): Promise<unknown> => {
      const payload = Buffer.from(encode({ timestamp: Date.now(), seq, metrics: metrics.map((each) => ({ timestamp: Date.now(), ...each })) }))
      seq = (seq + 1) % 256
      return edge.publishAsync(`spBv1.0/Basel/${type}/line-4${device}`, payload)
    }
    const birth = async (): Promise<void> => {
      seq = 0
      births++
      await send('NBIRTH', [
        bdSeq,
        { name: 'Node Control/Rebirth', type: 'Boolean', value: false },
        { name: 'Properties/OS', type: 'String', value: 'Linux', alias: 1 },
      ])
      await send(
        'DBIRTH',
        [
          { name: 'Speed', type: 'Double', value: -1, alias: 2 },
          { name: 'Parts', type: 'Int32', value: -1, alias: 3 },
        ],
        '/press',
      )
    }
    edge.on('message', () => void birth())
    await edge.subscribeAsync('spBv1.0/Basel/NCMD/line-4')
    await birth()
    const count = async (url: string): Promise<number> => Number((await sql(url, 'SELECT count(DISTINCT "Parts") FROM press WHERE "Parts" >= 0'))[0]?.[0] ?? 0)
    const data = (i: number): Promise<unknown> =>
      send(
        'DDATA',
        [
          { type: 'Double', value: i / 2, alias: 2 },
          { type: 'Int32', value: i, alias: 3 },
        ],
        '/press',
      )
    for (let i = 0; i < 300; i++) {
      await data(i)
      await sleep(2)
    }
    await until('all data is there', async () => (await count(started.url)) === 300)

    process.kill(started.pid, 'SIGKILL')
    await sleep(300)
    await data(300)
    const again = await runServer(join(folder, 'svc.toml'), { keepData: true, env: { SVC_DATA_DIR: started.dataDir } })
    svc = again
    await until('the connector is up again', () => isUp(again.url))
    await data(301)
    await until('births were asked for', () => births === 2)
    for (let i = 302; i < 400; i++) {
      await data(i)
      await sleep(2)
    }
    await until('all data is there but what came while the server was away, and the message that made it ask', async () => (await count(again.url)) === 398)
    const [[speed]] = await sql(again.url, 'SELECT sum("Speed" - "Parts" / 2.0) FROM press WHERE "Parts" >= 0')
    assert.equal(Number(speed), 0, 'values have their names')

    edge.stream.destroy()
    const states = async (): Promise<unknown[][]> =>
      sql(
        again.url,
        'SELECT device_id, online, bd_seq FROM (SELECT *, row_number() OVER (PARTITION BY device_id ORDER BY _time DESC) AS n FROM sparkplug_state) WHERE n = 1 ORDER BY device_id NULLS FIRST',
      )
    await until('the will says that they are gone', async () => (await states()).every(([, online]) => online === false))
    assert.deepEqual(
      (await states()).map(([device, online, session]) => [device, online, Number(session)]),
      [
        [null, false, 4],
        ['press', false, 4],
      ],
    )
    await edge.endAsync(true)
  } finally {
    await svc?.stop()
    const closed = once(broker, 'close')
    broker.kill()
    await closed
    await rm(folder, { recursive: true, force: true })
    if (svc !== undefined) await rm(svc.dataDir, { recursive: true, force: true })
  }
})
