// Things that are said together.

/** Items with the same key, which stands before them, in the order of the first of each. */
export function grouped<T, K>(
  items: readonly T[],
  key: (item: T) => K
): [K, T[]][] {
  const groups = new Map<K, T[]>();
  for (const item of items) {
    const group = groups.get(key(item)) ?? [];
    groups.set(key(item), group);
    group.push(item);
  }
  return [...groups];
}
