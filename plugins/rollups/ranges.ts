/** Half-open ranges of time that wait for repair: disjoint, ascending, not touching, and never more than a bound (supplement B.8). Lists are never changed in place. */
export type Range = readonly [start: bigint, end: bigint]

/** Adds a range; more than `max` ranges become their hull. */
export function withRange(list: readonly Range[], [start, end]: Range, max: number): Range[] {
  if (start >= end) return [...list]
  const out: Range[] = []
  let from = start
  let to = end
  let placed = false
  for (const one of list) {
    if (one[1] < from) out.push(one)
    else if (one[0] > to) {
      if (!placed) out.push([from, to])
      placed = true
      out.push(one)
    } else {
      if (one[0] < from) from = one[0]
      if (one[1] > to) to = one[1]
    }
  }
  if (!placed) out.push([from, to])
  return out.length > max ? [[out[0][0], out[out.length - 1][1]]] : out
}

export function withRanges(list: readonly Range[], more: readonly Range[], max: number): Range[] {
  return more.reduce<Range[]>((all, range) => withRange(all, range, max), [...list])
}

/** What of the ranges lies outside of one. */
export function withoutRange(list: readonly Range[], [start, end]: Range): Range[] {
  return list.flatMap((one): Range[] => {
    if (one[1] <= start || one[0] >= end) return [one]
    const left: Range[] = one[0] < start ? [[one[0], start]] : []
    return one[1] > end ? [...left, [end, one[1]]] : left
  })
}

/** What of the ranges lies within one. */
export function clipped(list: readonly Range[], [start, end]: Range): Range[] {
  return list.flatMap((one): Range[] => {
    const from = one[0] < start ? start : one[0]
    const to = one[1] > end ? end : one[1]
    return from < to ? [[from, to]] : []
  })
}

export function overlaps(list: readonly Range[], [start, end]: Range): boolean {
  return start < end && list.some((one) => one[0] < end && one[1] > start)
}
