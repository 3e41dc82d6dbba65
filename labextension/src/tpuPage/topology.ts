// Where the chips of a slice are: a grid of hosts, each a block of chips. Nothing here is drawn.

/** A place in the picture, counted in chips; layers of a 3D torus stand beside each other. */
export interface IPlace {
  x: number;
  y: number;
  /** 0 in a slice with two dimensions. */
  layer: number;
}

/** The chips of one host, in its order. */
export interface IHostBlock {
  host: number;
  chips: IPlace[];
}

export interface ILayout {
  blocks: IHostBlock[];
  /** The size of one layer, in chips, and how many there are. */
  width: number;
  height: number;
  layers: number;
}

/**
 * The block of chips that one host has, in chips along each side: it grows along one side after the
 * other, as Google's hosts do (2x2x1 of a v4's 4x4x4, 2x4 of a v5e's 2x4).
 */
export function hostBlock(sides: number[], chips: number): number[] | null {
  const block = sides.map(() => 1);
  const size = () => block.reduce((all, side) => all * side, 1);
  for (let grown = true; grown && size() < chips;) {
    grown = false;
    for (const [index, side] of sides.entries()) {
      if (size() < chips && side % (2 * block[index]) === 0) {
        block[index] *= 2;
        grown = true;
      }
    }
  }
  return size() === chips ? block : null;
}

/** Where the chips of *hosts* hosts are in a slice of the given *topology*, such as "4x4x8". */
export function layoutOf(
  topology: string,
  hosts: number,
  chipsPerHost: number
): ILayout {
  const sides = /^\d+(x\d+){1,2}$/.test(topology)
    ? topology.split('x').map(Number)
    : [];
  const chips = sides.reduce((all, side) => all * side, sides.length ? 1 : 0);
  const block =
    chips === hosts * chipsPerHost && hostBlock(sides, chipsPerHost);
  return block
    ? inGrid(sides, block, hosts)
    : sideBySide(hosts, Math.max(1, chipsPerHost));
}

function inGrid(sides: number[], block: number[], hosts: number): ILayout {
  const [rows, columns, layers = 1] = sides;
  const [down, across, deep = 1] = block;
  const along = columns / across;
  const perLayer = along * (rows / down);
  const blocks = [...Array(hosts).keys()].map(host => {
    const [layer, inLayer] = [Math.floor(host / perLayer), host % perLayer];
    const top = Math.floor(inLayer / along) * down;
    const left = (inLayer % along) * across;
    const places: IPlace[] = [];
    for (let z = 0; z < deep; z += 1) {
      for (let y = 0; y < down; y += 1) {
        for (let x = 0; x < across; x += 1) {
          places.push({ x: left + x, y: top + y, layer: layer * deep + z });
        }
      }
    }
    return { host, chips: places };
  });
  return { blocks, width: columns, height: rows, layers };
}

/** Hosts in rows of up to eight, each with its chips in two columns. */
function sideBySide(hosts: number, chips: number): ILayout {
  const across = Math.min(2, chips);
  const down = Math.ceil(chips / across);
  const along = Math.min(8, Math.max(1, hosts));
  const blocks = [...Array(hosts).keys()].map(host => ({
    host,
    chips: [...Array(chips).keys()].map(chip => ({
      x: (host % along) * across + (chip % across),
      y: Math.floor(host / along) * down + Math.floor(chip / across),
      layer: 0
    }))
  }));
  return {
    blocks,
    width: along * across,
    height: Math.ceil(hosts / along) * down,
    layers: 1
  };
}
