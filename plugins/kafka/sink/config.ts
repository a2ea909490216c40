import { type Static, Type } from 'svcdb/lib/schema'
import { accessKeys, checkAccess } from '../access-config.ts'
import { COMPRESSIONS } from './producer.ts'
import { TopicNames } from './topics.ts'

const KIB = 1024
const MIB = 1024 * KIB

/** Of one sink. */
export const sinkSchema = Type.Object({
  name: Type.String({
    minLength: 1,
    maxLength: 64,
    pattern: '^[A-Za-z0-9][A-Za-z0-9_.-]*$',
    description: 'Name in metrics and listings, unique; how far the sink is, is kept under it',
  }),
  ...accessKeys,
  namespace: Type.String({ default: 'default', description: 'Whose changes; under server.multi_tenancy one that exists' }),
  measurements: Type.Array(Type.String({ minLength: 1, maxLength: 1024, description: 'A name, in which * stands for any characters and ? for one' }), {
    default: [],
    maxItems: 1000,
    description: 'Measurements to send; empty = all',
  }),
  topic: Type.Optional(Type.String({ minLength: 1, maxLength: 249, pattern: '^[A-Za-z0-9._-]+$', description: 'One topic for all' })),
  topic_template: Type.Optional(
    Type.String({ minLength: 1, maxLength: 512, description: 'In place of topic: a topic a measurement, such as svc.{namespace}.{measurement}' }),
  ),
  format: Type.Enum(['json', 'line_protocol'], { default: 'json', description: 'Format of records: json, as the change stream has it, or line_protocol' }),
  compression: Type.Enum([...COMPRESSIONS], { default: 'none', description: 'Of what goes to the brokers' }),
  max_batch_bytes: Type.Integer({
    default: 900_000,
    minimum: 16 * KIB,
    maximum: 16 * MIB,
    description: 'Bytes that are sent at once; no more than the max.message.bytes of the topics',
  }),
  max_message_bytes: Type.Integer({
    default: 1_000_000,
    minimum: KIB,
    maximum: 16 * MIB,
    description: 'Largest record, before it is compressed; one that is larger is a dead letter',
  }),
  request_timeout_ms: Type.Integer({ default: 30_000, minimum: 1000, maximum: 300_000, description: 'How long brokers may take for an answer' }),
  reconnect_ms: Type.Integer({ default: 5000, minimum: 100, maximum: 3_600_000, description: 'Longest wait before a send is tried again' }),
  dead_letter_bytes: Type.Integer({
    default: 64 * MIB,
    minimum: 64 * KIB,
    maximum: 1024 * MIB,
    description: 'Bytes of the file of changes that can never be sent, <data_dir>/dead-letters/<name>.jsonl, and of the one before it, each',
  }),
})

export type SinkConfig = Static<typeof sinkSchema>

/** A source of the same node. */
interface SourceTopics {
  name: string
  brokers?: string
  topics: readonly string[]
}

/** @throws Error that says which key of which sink is wrong. */
export function checkSinks(sinks: readonly SinkConfig[], sources: readonly SourceTopics[]): void {
  for (const sink of sinks) {
    const where = `kafka.sink "${sink.name}"`
    checkAccess(where, sink)
    const { topic, topic_template } = sink
    if ((topic === undefined) === (topic_template === undefined)) throw new Error(`cannot use ${where}: it needs topic or topic_template, one of them`)
    const names = namesOf(sink, where)
    for (const source of sources) {
      const own = source.topics.find((each) => names.canBe(each))
      if (own !== undefined)
        throw new Error(
          `cannot use ${where}: ${source.name} consumes "${own}", which it may write to: what is written would come back and be sent again without end; choose other topics`,
        )
    }
  }
}

function namesOf({ topic, topic_template, namespace }: SinkConfig, where: string): TopicNames {
  try {
    return new TopicNames(topic ?? topic_template ?? '', namespace)
  } catch (error) {
    throw new Error(`cannot use ${where}: ${(error as Error).message}`)
  }
}
