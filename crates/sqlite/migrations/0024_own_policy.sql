-- The policy that an item goes under in place of its stage's own, as JSON. Nearly all items have none, which takes no room.
ALTER TABLE item ADD COLUMN policy TEXT;
