-- oldest-writer: 1
-- Records that other replicas have sealed: this store keeps and relays them, and cannot read them. A record without the name of a
-- slot is the state of a row. `gone` is `slot` where nothing may stand in this slot any more, `row` where the uid was forgotten.

CREATE TABLE mnemosyne.sealed (
    uid text COLLATE "C" NOT NULL,
    slot text COLLATE "C" NOT NULL,
    theme text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    clock text COLLATE "C" NOT NULL,
    gone text COLLATE "C" NOT NULL CHECK (gone IN ('', 'slot', 'row')),
    box bytea NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY (uid, slot)
);
-- What is encrypted does not get smaller.
ALTER TABLE mnemosyne.sealed ALTER COLUMN box SET STORAGE EXTERNAL;
CREATE INDEX sealed_by_seq ON mnemosyne.sealed (seq);
CREATE INDEX sealed_rows ON mnemosyne.sealed (theme, uid, gone, clock) WHERE slot = '';
