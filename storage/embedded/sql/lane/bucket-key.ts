/** A bucket of time as a key: `time_bucket` and `date_trunc` of fixed widths. */

import { floorMod } from 'svcdb/lib/time-buckets'
import { constantText, type Node } from '../ast.ts'
import { bucketing } from '../bucket.ts'
import { foldSpan } from '../fold.ts'
import { parameterName } from '../parameters.ts'
import { truncationOf } from '../truncation.ts'
import { CALL, only } from './members.ts'
import type { KeyPlan } from './plan.ts'

const NS_PER_MS = 1_000_000n
/** A year: wider ones, and their anchors, need not be exact as doubles. */
const MAX_STEP = 366n * 86_400_000_000_000n

export function bucketKey(node: Node, isTime: (node: Node) => boolean, now: bigint): KeyPlan | undefined {
  if (node.class !== 'FUNCTION' || !only(node, CALL) || node.order_bys?.orders !== undefined) return undefined
  const children = (node.children ?? []) as Node[]
  switch (node.function_name) {
    case 'time_bucket': {
      const [width, time, zone, origin] = children
      if (children.length < 2 || children.length > 4 || !isTime(time)) return undefined
      const span = constantText(width) ?? foldSpan(width)
      const zoneName = zone === undefined ? '' : constantText(zone)
      const originText = origin === undefined ? undefined : constantText(origin)
      if (span === undefined || zoneName === undefined || (origin !== undefined && originText === undefined)) return undefined
      const buckets = bucketing(span, zoneName, originText, now)
      return buckets.kind === 'fixed' ? fixed(buckets.step, buckets.anchor) : undefined
    }
    case 'date_trunc': {
      const [unit, time] = children
      const truncation = children.length === 2 && isTime(time) ? truncationOf(constantText(unit)) : undefined
      return truncation?.kind === 'fixed' ? fixed(truncation.step, floorMod(truncation.anchor, truncation.step)) : undefined
    }
    default:
      return undefined
  }
}

/** What DuckDB calls it: its arguments as they are printed. Undefined where that is not certain. */
export function bucketName({ function_name: name, children }: Node): string | undefined {
  const texts = (children as Node[]).map(argumentName)
  return texts.includes(undefined) ? undefined : `${name}(${texts.join(', ')})`
}

function argumentName(node: Node): string | undefined {
  const parameter = parameterName(node)
  if (parameter !== undefined) return parameter
  if (node.class === 'COLUMN_REF') return node.column_names.length === 1 ? String(node.column_names[0]) : undefined
  const text = node.class === 'CONSTANT' ? constantText(node) : undefined
  if (text !== undefined) return text.includes("'") ? undefined : `'${text}'`
  const inner = node.class === 'CAST' && node.cast_type?.id === 'INTERVAL' && node.try_cast !== true ? argumentName(node.child) : undefined
  return inner === undefined ? undefined : `CAST(${inner} AS INTERVAL)`
}

function fixed(step: bigint, anchor: bigint): KeyPlan | undefined {
  if (step % NS_PER_MS !== 0n || anchor % NS_PER_MS !== 0n || step > MAX_STEP) return undefined
  return { kind: 'bucket', step: Number(step / NS_PER_MS), anchor: Number(anchor / NS_PER_MS) }
}
