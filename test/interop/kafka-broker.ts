/**
 * Apache Kafka, a broker of one node (KRaft) as a process of its own with its data in a temporary folder. Four listeners: plain, TLS, and SASL over either
 * (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512). Certificates are those of test/support/certificates; a client's is asked for and not required.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { freePort } from '../support/free-port.ts'
import { ROOT } from '../support/tree.ts'
import { cached, client, hasCompiler, lacking } from './program.ts'

/** Those that `run` fetches: the last line that still knew ZooKeeper and old clients, and the newest. */
export const KAFKA_VERSIONS = ['3.9.2', '4.4.0'] as const
export type KafkaVersion = (typeof KAFKA_VERSIONS)[number]

const LISTENERS = ['plaintext', 'ssl', 'sasl_plaintext', 'sasl_ssl'] as const
export type KafkaListener = (typeof LISTENERS)[number]

const READY_LIMIT_MS = 90_000
const STOP_LIMIT_MS = 20_000
const TOOL_LIMIT_MS = 60_000
/** Reading all of a topic, which may have millions of messages. */
const READ_LIMIT_MS = 600_000
/** Of what a tool has printed, for the error when it fails. */
const TOOL_LINES = 20
const OUTPUT_CHARACTERS = 200_000
const STARTED = 'Kafka Server started'

/** Why tests that need a broker of this version are skipped; false when it can start. */
export function noKafka(version: KafkaVersion): string | false {
  return lacking(`Kafka ${version}`, `kafka-${version}`) || (hasCompiler() ? false : 'there is no JDK: no java with a compiler is on the path')
}

/** Of test/support/certificates. */
export const KAFKA_CERTIFICATES = {
  ca: certificateFile('ca.pem'),
  clientCertificate: certificateFile('client.pem'),
  clientKey: certificateFile('client.key'),
}
function certificateFile(name: string): string {
  return join(ROOT, 'test/support/certificates', name)
}

export interface KafkaOptions {
  /** Passwords by user, for all three mechanisms; default `svc` with `secret`. */
  users?: Record<string, string>
  /** Of the broker, over those below. */
  settings?: Record<string, string | number | boolean>
  /** Of the Java heap. */
  heapMb?: number
  /** Ports that clients of a listener are told to use, in place of its own: those of a link to it. */
  advertised?: Partial<Record<KafkaListener, number>>
}

export interface KafkaSecurity {
  listener: KafkaListener
  /** More of what the client for Java is configured with. */
  settings?: Record<string, string>
}

export interface KafkaMessage {
  partition: number
  offset: number
  /** Milliseconds. */
  timestamp: number
  key: Buffer | null
  value: Buffer | null
  headers: Record<string, string>
}

interface ToolOptions {
  stdin?: string
  /** Is called with each line that it prints. */
  line?(text: string): void
  limitMs?: number
}

export interface KafkaBroker {
  version: KafkaVersion
  /** Host and port of a listener. */
  address(listener?: KafkaListener): string
  port(listener?: KafkaListener): number
  pid(): number
  /** The newest of what it has printed. */
  output(): string
  /** SIGKILL. */
  kill(): Promise<void>
  /** Kills it where it runs, and starts it on the same ports and data. */
  restart(): Promise<void>
  /** Starts it after `kill`. */
  start(): Promise<void>
  /** Ends it, and removes its data. */
  stop(): Promise<void>
  createTopic(name: string, partitions?: number, settings?: Record<string, string | number>): Promise<void>
  /** Sends a message for each text by Kafka's client for Java. */
  produce(topic: string, values: readonly string[], security?: KafkaSecurity): Promise<void>
  /** All that is in the topic, by Kafka's client for Java; of a partition in the order of offsets. */
  consume(topic: string, security?: KafkaSecurity): Promise<KafkaMessage[]>
  /** The same one by one, for topics of which nobody wants all at once. */
  consumeEach(topic: string, each: (message: KafkaMessage) => void, security?: KafkaSecurity): Promise<void>
}

/** A line of what clients/KafkaAccess.java prints. */
function messageOf(line: string): KafkaMessage {
  const bytes = (text: string | undefined): Buffer | null => (text === undefined || text === '-' ? null : Buffer.from(text, 'base64'))
  const [partition, offset, timestamp, key, value, ...headers] = line.split(' ')
  const pairs = headers.map((header) => header.split('=', 2).map((text) => `${bytes(text.replaceAll('.', '='))}`))
  const numbers = { partition: Number(partition), offset: Number(offset), timestamp: Number(timestamp) }
  return { ...numbers, key: bytes(key), value: bytes(value), headers: Object.fromEntries(pairs) }
}

// Escapes of a file of properties: a backslash and the ends of lines.
const escaped = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')

async function properties(
  folder: string,
  ports: number[],
  controller: number,
  { users, advertised, settings }: Required<Pick<KafkaOptions, 'users' | 'advertised' | 'settings'>>,
): Promise<string> {
  const pem = async (name: string): Promise<string> => escaped(await readFile(certificateFile(name), 'utf8'))
  const listenersAt = (at: (name: KafkaListener, i: number) => number | undefined) =>
    LISTENERS.map((name, i) => `${name.toUpperCase()}://127.0.0.1:${at(name, i)}`).join(',')
  const listeners = listenersAt((_, i) => ports[i])
  const all: Record<string, unknown> = {
    'process.roles': 'broker,controller',
    'node.id': 1,
    'controller.quorum.voters': `1@127.0.0.1:${controller}`,
    'controller.listener.names': 'CONTROLLER',
    listeners: `${listeners},CONTROLLER://127.0.0.1:${controller}`,
    'advertised.listeners': listenersAt((name, i) => advertised[name] ?? ports[i]),
    'listener.security.protocol.map': `CONTROLLER:PLAINTEXT,${LISTENERS.map((name) => `${name.toUpperCase()}:${name.toUpperCase()}`).join(',')}`,
    'inter.broker.listener.name': 'PLAINTEXT',
    'log.dirs': escaped(join(folder, 'data')),
    'sasl.enabled.mechanisms': 'PLAIN,SCRAM-SHA-256,SCRAM-SHA-512',
    'ssl.keystore.type': 'PEM',
    'ssl.keystore.certificate.chain': await pem('first.pem'),
    'ssl.keystore.key': await pem('first.key'),
    'ssl.truststore.type': 'PEM',
    'ssl.truststore.certificates': await pem('ca.pem'),
    'ssl.client.auth': 'requested',
    // One node, few topics, a small machine.
    'num.network.threads': 2,
    'num.io.threads': 2,
    'log.cleaner.dedupe.buffer.size': 2_097_152,
    'group.initial.rebalance.delay.ms': 0,
    'offsets.topic.num.partitions': 1,
    'offsets.topic.replication.factor': 1,
    'transaction.state.log.num.partitions': 1,
    'transaction.state.log.replication.factor': 1,
    'transaction.state.log.min.isr': 1,
    'share.coordinator.state.topic.num.partitions': 1,
    'share.coordinator.state.topic.replication.factor': 1,
    'share.coordinator.state.topic.min.isr': 1,
    // What was killed comes back as itself once this has passed.
    'broker.session.timeout.ms': 2000,
    'broker.heartbeat.interval.ms': 500,
  }
  for (const listener of ['sasl_plaintext', 'sasl_ssl']) {
    const plain = Object.entries(users).map(([user, password]) => `user_${user}="${password}"`)
    all[`listener.name.${listener}.plain.sasl.jaas.config`] = `org.apache.kafka.common.security.plain.PlainLoginModule required ${plain.join(' ')};`
    for (const hash of ['256', '512'])
      all[`listener.name.${listener}.scram-sha-${hash}.sasl.jaas.config`] = 'org.apache.kafka.common.security.scram.ScramLoginModule required;'
  }
  return Object.entries({ ...all, ...settings })
    .map(([name, value]) => `${name}=${value}\n`)
    .join('')
}

/** @throws Error with what it printed when it does not start in time. */
export async function startKafka(
  version: KafkaVersion,
  { users = { svc: 'secret' }, advertised = {}, settings = {}, heapMb = 384 }: KafkaOptions = {},
): Promise<KafkaBroker> {
  const reason = noKafka(version)
  if (reason !== false) throw new Error(`cannot start Kafka ${version}: ${reason}; run test/interop/run once, which fetches it`)
  const folder = await mkdtemp(join(tmpdir(), 'svc-kafka-'))
  const ports: number[] = []
  for (let i = 0; i <= LISTENERS.length; i++) ports.push(await freePort())
  const file = join(folder, 'server.properties')
  await writeFile(file, await properties(folder, ports, ports[LISTENERS.length] as number, { users, advertised, settings }))
  const base = ['-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-Xshare:auto', `-XX:ErrorFile=${folder}/error.log`, '-cp', `${cached(`kafka-${version}`)}/*`]
  const java = (heap: number, ...args: string[]): ChildProcess => spawn('java', [`-Xmx${heap}m`, ...base, ...args], { cwd: folder })
  const port = (listener: KafkaListener = 'plaintext'): number => ports[LISTENERS.indexOf(listener)] as number

  /** Runs a program of Kafka, or of a source file, to its end. @param line gets what it prints. @throws Error when it fails. */
  async function tool(program: string, args: string[], { stdin = '', line = () => {}, limitMs = TOOL_LIMIT_MS }: ToolOptions = {}): Promise<void> {
    const child = java(256, '-Dorg.slf4j.simpleLogger.defaultLogLevel=error', program, ...args)
    const timer = setTimeout(() => child.kill('SIGKILL'), limitMs)
    let errors = ''
    const newest: string[] = []
    const lines = createInterface({ input: child.stdout as Readable }).on('line', (text) => {
      if (newest.push(text) > TOOL_LINES) newest.shift()
      line(text)
    })
    const read = once(lines, 'close')
    child.stderr?.setEncoding('utf8').on('data', (text) => (errors += text))
    child.stdin?.on('error', () => {}).end(stdin)
    const [code] = await once(child, 'close')
    await read
    clearTimeout(timer)
    if (code !== 0) throw new Error(`${program} ended with ${code}:\n${newest.join('\n')}\n${errors}`)
  }

  async function access({ listener, settings: more = {} }: KafkaSecurity, args: string[], options: ToolOptions = {}): Promise<void> {
    const trust = { 'ssl.truststore.type': 'PEM', 'ssl.truststore.location': KAFKA_CERTIFICATES.ca }
    const all = { 'bootstrap.servers': `127.0.0.1:${port(listener)}`, 'security.protocol': listener.toUpperCase(), ...trust, ...more }
    const configuration = join(folder, `client-${++clients}.properties`)
    await writeFile(
      configuration,
      Object.entries(all)
        .map(([name, value]) => `${name}=${escaped(value)}\n`)
        .join(''),
    )
    await tool(client('KafkaAccess.java'), [configuration, ...args], options)
  }

  const consumeEach: KafkaBroker['consumeEach'] = (topic, each, security = { listener: 'plaintext' }) =>
    access(security, ['consume', topic], { line: (line) => each(messageOf(line)), limitMs: READ_LIMIT_MS })

  let clients = 0
  let child: ChildProcess | undefined
  let output = ''
  async function end(signal: NodeJS.Signals): Promise<void> {
    const ending = child
    child = undefined
    if (ending === undefined || ending.exitCode !== null || ending.signalCode !== null) return
    const timer = setTimeout(() => ending.kill('SIGKILL'), STOP_LIMIT_MS)
    const closed = once(ending, 'close')
    ending.kill(signal)
    await closed
    clearTimeout(timer)
  }
  async function start(): Promise<void> {
    if (child !== undefined) throw new Error('the broker runs already')
    const starting = java(heapMb, 'kafka.Kafka', file)
    child = starting
    starting.stdin?.end()
    let ready: (what: 'started') => void = () => {}
    const started = new Promise<string>((resolve) => {
      ready = resolve
    })
    output = ''
    for (const stream of [starting.stdout, starting.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        output = (output + text).slice(-OUTPUT_CHARACTERS)
        if (output.includes(STARTED)) ready('started')
      })
    }
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<string>((resolve) => {
      timer = setTimeout(resolve, READY_LIMIT_MS, `was not ready after ${READY_LIMIT_MS / 1000} s`)
    })
    const ended = once(starting, 'close').then(([code]) => `ended with ${code}`)
    const how = await Promise.race([started, late, ended])
    clearTimeout(timer)
    if (how === 'started') return
    await end('SIGKILL')
    throw new Error(`Kafka ${version} ${how}:\n${output}`)
  }

  try {
    const scram = Object.entries(users).flatMap(([user, password]) =>
      ['256', '512'].flatMap((hash) => ['--add-scram', `SCRAM-SHA-${hash}=[name=${user},password=${password}]`]),
    )
    const id = Buffer.from('one node of svc.').toString('base64url')
    await tool('kafka.tools.StorageTool', ['format', '--cluster-id', id, '--config', file, ...scram])
    await start()
  } catch (error) {
    await rm(folder, { recursive: true, force: true })
    throw error
  }
  return {
    version,
    address: (listener) => `127.0.0.1:${port(listener)}`,
    port,
    pid: () => child?.pid ?? 0,
    output: () => output,
    kill: () => end('SIGKILL'),
    start,
    async restart() {
      await end('SIGKILL')
      await start()
    },
    async stop() {
      await end('SIGTERM')
      await rm(folder, { recursive: true, force: true })
    },
    async createTopic(name, partitions = 1, more = {}) {
      const config = Object.entries(more).map(([key, value]) => `${key}=${value}`)
      await access({ listener: 'plaintext' }, ['create', name, String(partitions), ...config])
    },
    async produce(topic, values, security = { listener: 'plaintext' }) {
      await access(security, ['produce', topic], { stdin: `${values.join('\n')}\n` })
    },
    async consume(topic, security) {
      const all: KafkaMessage[] = []
      await consumeEach(topic, (message) => all.push(message), security)
      return all
    },
    consumeEach,
  }
}
